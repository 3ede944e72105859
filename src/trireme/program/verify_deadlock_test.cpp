// V8 on built programs: as they are, and with their messages in the order that comes to mind first.
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/test_files.h"
#include "trireme/program/schedules/schedules.h"
#include "trireme/program/step_clock.h"
#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

Programs pipelined(const std::string& schedule, int pp, std::int64_t num_micro_batches,
                   Layout layout = {}) {
  const ScheduleKind& kind = *find_schedule_kind(schedule);
  layout.pp = pp;
  layout.schedule = schedule;
  layout.chunks = kind.chunks == 0 ? 2 : kind.chunks;
  return trained(layout, num_micro_batches,
                 resolved({.layers = num_stages(kind, {.ranks = pp, .chunks = layout.chunks}),
                           .hidden = 4,
                           .heads = 2,
                           .ffn = 4,
                           .vocab = 5,
                           .max_seq = 8}));
}

/// (is a gradient, stage, micro-batch) of what a computation needs or makes.
using Edge = std::tuple<bool, int, int>;

bool is_message(const Program& program, const Call& call) {
  const Op op = program.at(call.template_index).instructions.front().op;
  return op == Op::kSend || op == Op::kRecv;
}

/// Moves each receipt right before the call that reads it, each send right behind the one that
/// makes it.
void order_by_use(Program& program) {
  std::map<Edge, Call> receipts, sends;
  for (const Call& call : program.calls) {
    if (!is_message(program, call)) continue;
    const Instruction& message = program.at(call.template_index).instructions.front();
    const bool is_send = message.op == Op::kSend;
    const bool is_gradient = (message.part == Part::kStageIn) == is_send;
    (is_send ? sends : receipts)[{is_gradient, message.stage, call.micro_batch}] = call;
  }
  std::vector<Call> ordered;
  for (const Call& call : program.calls) {
    if (is_message(program, call)) continue;
    const auto op = stage_op_of(program, call);
    const bool has_edges = op && op->phase != Phase::kBackwardWeight;
    const Edge edge = has_edges ? Edge{op->phase != Phase::kForward, op->stage, op->micro_batch}
                                : Edge{false, -1, -1};
    if (const auto receipt = receipts.find(edge); receipt != receipts.end())
      ordered.push_back(receipt->second);
    ordered.push_back(call);
    if (const auto send = sends.find(edge); send != sends.end()) ordered.push_back(send->second);
  }
  program.calls = std::move(ordered);
  rederive(program);
}

constexpr DeadlockMode kModes[] = {DeadlockMode::kPerStream, DeadlockMode::kDeviceSerial,
                                   DeadlockMode::kBlocking};

/// Calls `check(schedule, pp, micro_batches)` for every schedule.
template <typename Check>
void for_each_schedule(Check check) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int pp : {2, 3, 4}) {
      if (kind.is_bidirectional && pp % 2 != 0) continue;
      SCOPED_TRACE(std::string(kind.name) + " pp " + std::to_string(pp));
      check(std::string(kind.name), pp, 2 * pp);
    }
  }
}

bool ends_forwards_first(const std::string& schedule) {
  return schedule == "naive" || schedule == "gpipe" || schedule == "gpipe-lifo";
}

TEST(MessagesByUse, MeetWhereNoForwardFollowsABackward) {
  for_each_schedule([](const std::string& schedule, int pp, int m) {
    if (!ends_forwards_first(schedule)) return;
    const Programs programs = changed(pipelined(schedule, pp, m), order_by_use);
    EXPECT_EQ(broken(programs), "");
    for (const DeadlockMode mode : kModes) EXPECT_EQ(check_deadlock(programs, mode), std::nullopt);
  });
}

TEST(MessagesByUse, DeadlockInAllOtherSchedulesAndEachRankIsNamed) {
  for_each_schedule([](const std::string& schedule, int pp, int m) {
    if (ends_forwards_first(schedule)) return;
    const Programs programs = changed(pipelined(schedule, pp, m), order_by_use);
    for (const DeadlockMode mode : kModes) {
      const auto violation = check_deadlock(programs, mode);
      ASSERT_TRUE(violation.has_value());
      EXPECT_EQ(violation->rule, "V8");
      for (int rank = 0; rank < pp; ++rank)
        EXPECT_CONTAINS(violation->message, "rank " + std::to_string(rank) + " at 'SEND ");
    }
  });
}

/// Where a pair of ranks exchanges activations and gradients in one direction, the order in which
/// they are made may already differ from that in which they are read.
TEST(MessagesByUse, AreRefusedByVerify) {
  for_each_schedule([](const std::string& schedule, int pp, int m) {
    if (ends_forwards_first(schedule)) return;
    const bool is_v = schedule == "zb-v" || (schedule == "dualpipe-v" && pp > 2);
    EXPECT_EQ(broken(changed(pipelined(schedule, pp, m), order_by_use)), is_v ? "V7" : "V8");
  });
}

TEST(MessagesByUse, OfOneForwardOneBackwardHangAtTheSecondActivationAndTheFirstGradient) {
  const auto violation = verify(changed(pipelined("1f1b", 2, 4), order_by_use));
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rank, 0);
  EXPECT_CONTAINS(violation->message, "in S0.send.1 of micro-batch 1");
  EXPECT_CONTAINS(violation->message,
                  "rank 0 at 'SEND STAGE_OUT pipe | R data=S0.out | comm pp f32 elems=32 peer=1 "
                  "tag=0' of micro-batch 1, rank 1 at 'SEND STAGE_IN stage=1 pipe | R "
                  "data=d_S1.stream | comm pp f32 elems=32 peer=0 tag=12' of micro-batch 0;");
}

TEST(MessagesByClock, NeverDeadlock) {
  for_each_schedule([](const std::string& schedule, int pp, int m) {
    for (const Programs& programs :
         {pipelined(schedule, pp, m), pipelined(schedule, pp, m + 2, {.dp = 2, .zero = 1}),
          pipelined(schedule, pp, m, {.dp = 2, .tp = 2, .sp = true})}) {
      EXPECT_EQ(broken(programs), "");
      EXPECT_EQ(check_deadlock(programs, DeadlockMode::kPerStream), std::nullopt);
      EXPECT_EQ(check_deadlock(programs, DeadlockMode::kDeviceSerial), std::nullopt);
    }
  });
}

TEST(MessagesByClock, OfAPipelineAloneNeedNoStreamOfTheirOwn) {
  for_each_schedule([](const std::string& schedule, int pp, int m) {
    EXPECT_EQ(check_deadlock(pipelined(schedule, pp, m), DeadlockMode::kBlocking), std::nullopt);
  });
}

}  // namespace
}  // namespace trireme::mutation
