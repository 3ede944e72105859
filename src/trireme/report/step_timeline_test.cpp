#include "trireme/report/step_timeline.h"

#include <gtest/gtest.h>

#include "trireme/program/build.h"

namespace trireme {
namespace {

Program two_rank_program() {
  const ModelSpec spec = resolved({.layers = 2,
                                   .hidden = 12,
                                   .heads = 3,
                                   .head_dim = 4,
                                   .ffn = 20,
                                   .vocab = 23,
                                   .max_seq = 16});
  return build_train({.spec = spec,
                      .layout = {.dp = 2},
                      .batch = {.seq = 8, .micro_batch = 1, .global_batch = 4}});
}

/// Every instruction takes 1 s, one after another from second 100 on.
std::vector<InstructionTime> one_second_each(const Program& program, Stream stream) {
  std::vector<InstructionTime> times;
  double now = 100;
  for_each_instruction(program, [&](const Call&, int call, const Instruction& what, int index) {
    if (what.stream == stream) times.push_back({call, index, now, now + 1});
    now += 1;
  });
  return times;
}

Timeline recorded() {
  static const Program program = two_rank_program();
  static const auto compute = one_second_each(program, Stream::kCompute);
  static const auto comm = one_second_each(program, Stream::kComm);
  return step_timeline(
      "step 1", {{&program, 1, Stream::kCompute, compute}, {&program, 1, Stream::kComm, comm}});
}

const TraceEvent& event(const Timeline& timeline, std::string_view name) {
  for (const TraceEvent& candidate : timeline.events) {
    if (candidate.name == name) return candidate;
  }
  ADD_FAILURE() << "no event " << name;
  return timeline.events.front();
}

TEST(StepTimeline, PartsAreNamedWithTheirLayer) {
  const TraceEvent found = event(recorded(), "FWD QKV L1");
  EXPECT_EQ(found.category, "forward");
  EXPECT_EQ(found.micro_batch, 0);
  EXPECT_EQ(found.rank, 1);
}

TEST(StepTimeline, WeightGradientsAreBackward) {
  EXPECT_EQ(event(recorded(), "BWD_W QKV L1").category, "backward");
}

TEST(StepTimeline, CollectivesNameTheirBuffer) {
  const TraceEvent found = event(recorded(), "ALL_REDUCE grads.0");
  EXPECT_EQ(found.category, "communication");
  EXPECT_EQ(found.stream, 1);
}

TEST(StepTimeline, UpdatesBelongToNoMicroBatch) {
  const TraceEvent found = event(recorded(), "OPT_STEP params.0");
  EXPECT_EQ(found.category, "optimizer");
  EXPECT_EQ(found.micro_batch, std::nullopt);
}

TEST(StepTimeline, TimeStartsAtTheFirstInstruction) {
  const Timeline timeline = recorded();
  EXPECT_EQ(timeline.events.front().start_seconds, 0.0);
  EXPECT_EQ(timeline.events.front().duration_seconds, 1.0);
  EXPECT_EQ(end_seconds(timeline), static_cast<double>(two_rank_program().num_instructions()));
}

}  // namespace
}  // namespace trireme
