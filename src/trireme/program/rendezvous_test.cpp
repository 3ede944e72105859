#include "trireme/program/rendezvous.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "trireme/program/schedules/messages.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

using nlohmann::json;

RendezvousOp meets(const char* name, int queue, int meeting) {
  return {.name = name, .queue = queue, .meets = {meeting}};
}

TEST(Rendezvous, TwoSendsThatFaceEachOtherAreStuck) {
  const RendezvousSystem system{.ranks = {{meets("send 0", 0, 0), meets("recv 1", 0, 1)},
                                          {meets("send 1", 0, 1), meets("recv 0", 0, 0)}}};
  EXPECT_EQ(stuck_text(system, run_rendezvous(system)), "rank 0 at send 0, rank 1 at send 1");
}

TEST(Rendezvous, TheyFinishOnQueuesOfTheirOwn) {
  RendezvousSystem system{.ranks = {{meets("send 0", 0, 0), meets("recv 1", 1, 1)},
                                    {meets("send 1", 0, 1), meets("recv 0", 1, 0)}},
                          .meeting_seconds = 2};
  const RendezvousResult result = run_rendezvous(system);
  EXPECT_TRUE(result.stuck.empty());
  EXPECT_EQ(result.makespan, 2);
}

TEST(Rendezvous, ARingInWhichAllSendFirstIsStuckUnlessBothBeginAtOnce) {
  RendezvousSystem ring, batched;
  for (int rank = 0; rank < 3; ++rank) {
    const int previous = (rank + 2) % 3;
    ring.ranks.push_back({meets("send", 0, rank), meets("recv", 0, previous)});
    batched.ranks.push_back({{.name = "both", .meets = {rank, previous}}});
  }
  EXPECT_EQ(run_rendezvous(ring).stuck.size(), 3U);
  EXPECT_TRUE(run_rendezvous(batched).stuck.empty());
}

TEST(Rendezvous, ASendThatNobodyReceivesIsStuck) {
  const RendezvousSystem system{.ranks = {{meets("send", 0, 0)}, {}}};
  EXPECT_EQ(stuck_text(system, run_rendezvous(system)), "rank 0 at send");
}

TEST(Rendezvous, CollectivesInAnotherOrderAreStuckOnOneQueueAlone) {
  for (const int second_queue : {0, 1}) {
    const RendezvousSystem system{.ranks = {{meets("a", 0, 0), meets("b", second_queue, 1)},
                                            {meets("b", second_queue, 1), meets("a", 0, 0)}}};
    EXPECT_EQ(run_rendezvous(system).stuck.empty(), second_queue == 1);
  }
}

// The published cells: schedules under several ways to order their messages
// --------------------------------------------------------------------------------------------------

/// Computations, and groups of messages that begin at once.
struct Item {
  int step = -1;
  std::vector<StageMessage> messages = {};
};
using Lowered = std::vector<std::vector<Item>>;

/// Receive right before the first use, send right after making.
Lowered next_to_use(const Schedule& schedule) {
  const MessageTable table(schedule);
  Lowered lowered;
  for (const Order& order : schedule.orders) {
    auto& items = lowered.emplace_back();
    for (std::size_t i = 0; i < order.size(); ++i) {
      for_each_op(order[i], [&](const StageOp& op) {
        if (const auto message = table.needed_by(op)) items.push_back({.messages = {*message}});
      });
      items.push_back({.step = static_cast<int>(i)});
      for_each_op(order[i], [&](const StageOp& op) {
        if (const auto message = table.made_by(op)) items.push_back({.messages = {*message}});
      });
    }
  }
  return lowered;
}

/// The same with messages between two computations in one group.
Lowered batched(const Schedule& schedule) {
  Lowered lowered = next_to_use(schedule);
  for (auto& items : lowered) {
    std::vector<Item> groups;
    for (const Item& item : items) {
      if (item.step < 0 && !groups.empty() && groups.back().step < 0) {
        groups.back().messages.push_back(item.messages.front());
      } else {
        groups.push_back(item);
      }
    }
    items = groups;
  }
  return lowered;
}

Lowered by_clock(const Schedule& schedule, const ScheduleCosts& costs) {
  Lowered lowered;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    auto& items = lowered.emplace_back();
    for (const Issue& issue : issue_by_clock(schedule, costs, rank)) {
      items.push_back({.step = issue.step});
      if (issue.message) items.back().messages = {*issue.message};
    }
  }
  return lowered;
}

using Key = std::tuple<bool, int, int>;
Key key_of(const StageMessage& message) {
  return {message.is_gradient, message.stage, message.micro_batch};
}

/// Ops of a lowered schedule with their data dependencies.
class SystemOf {
 public:
  SystemOf(const Schedule& schedule, const Lowered& lowered, const ScheduleCosts& costs,
           const std::string& streams)
      : schedule_(schedule), table_(schedule), costs_(costs), streams_(streams) {
    system_.meeting_seconds = costs.latency;
    for (std::size_t rank = 0; rank < lowered.size(); ++rank)
      add(static_cast<int>(rank), lowered[rank]);
  }
  [[nodiscard]] const RendezvousSystem& get() const { return system_; }

 private:
  void add(int rank, const std::vector<Item>& items) {
    const Order& order = schedule_.orders[static_cast<std::size_t>(rank)];
    std::map<Key, int> made;  // (is backward, stage, micro-batch): op that computes it
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].step < 0) continue;
      for_each_op(order[static_cast<std::size_t>(items[i].step)], [&](const StageOp& op) {
        if (op.phase != Phase::kBackwardWeight)
          made[{op.phase != Phase::kForward, op.stage, op.micro_batch}] = static_cast<int>(i);
      });
    }
    auto& ops = system_.ranks.emplace_back();
    for (const Item& item : items) {
      ops.push_back(item.step >= 0 ? computation(order[static_cast<std::size_t>(item.step)], made,
                                                 static_cast<int>(ops.size()))
                                   : group(rank, item.messages, made));
    }
  }

  RendezvousOp computation(const ScheduleStep& step, const std::map<Key, int>& made, int self) {
    RendezvousOp result{.name = step_text(step)};
    const auto after = [&](bool is_backward, int stage, int micro_batch) {
      const auto found = made.find({is_backward, stage, micro_batch});
      if (found != made.end() && found->second != self) result.after.push_back(found->second);
    };
    for_each_op(step, [&](const StageOp& op) {
      if (const auto message = table_.needed_by(op)) result.needs.push_back(number_of(*message));
      if (op.phase == Phase::kForward) after(false, op.stage - 1, op.micro_batch);
      if (makes_input_gradient(op.phase)) {
        after(false, op.stage, op.micro_batch);
        after(true, op.stage + 1, op.micro_batch);
      }
      if (op.phase == Phase::kBackwardWeight) after(true, op.stage, op.micro_batch);
      result.seconds += op.phase == Phase::kForward         ? costs_.forward
                        : op.phase == Phase::kBackward      ? costs_.input + costs_.weight
                        : op.phase == Phase::kBackwardInput ? costs_.input
                                                            : costs_.weight;
    });
    return result;
  }

  RendezvousOp group(int rank, const std::vector<StageMessage>& messages,
                     const std::map<Key, int>& made) {
    RendezvousOp result;
    for (const StageMessage& message : messages) {
      const bool is_send = message.source == rank;
      result.name += std::string(result.name.empty() ? "" : ",") + (is_send ? "send " : "recv ") +
                     (message.is_gradient ? "g" : "f") + std::to_string(message.stage) + "." +
                     std::to_string(message.micro_batch);
      result.meets.push_back(number_of(message));
      if (is_send)
        result.after.push_back(made.at({message.is_gradient, message.stage, message.micro_batch}));
    }
    const StageMessage& first = messages.front();
    const bool is_send = first.source == rank;
    const int direction = first.is_gradient ? 1 : 0;
    if (streams_ == "comm1") result.queue = 1;
    if (streams_ == "dir") result.queue = 1 + direction;
    if (streams_ == "peerdir") {
      const int peer = is_send ? first.target : first.source;
      result.queue = 1 + 4 * peer + 2 * direction + (is_send ? 1 : 0);
    }
    return result;
  }

  int number_of(const StageMessage& message) {
    return numbers_.try_emplace(key_of(message), static_cast<int>(numbers_.size())).first->second;
  }

  const Schedule& schedule_;
  MessageTable table_;
  ScheduleCosts costs_;
  std::string streams_;
  std::map<Key, int> numbers_;
  RendezvousSystem system_;
};

/// "rank 0 at recv g1.0, ..." as the vectors write it: "r0:recv g1.0; ..."
std::string vector_text(const RendezvousSystem& system, const RendezvousResult& result) {
  std::string text;
  for (const StuckOp& at : result.stuck) {
    text +=
        (text.empty() ? "r" : "; r") + std::to_string(at.rank) + ":" +
        system.ranks[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.never_begun)]
            .name;
  }
  return text;
}

TEST(Rendezvous, AgreesWithTheIndependentCheckerOn110Cells) {
  std::ifstream file(TRIREME_SCHEDULE_VECTORS);
  const ScheduleCosts costs{.latency = 0.1};
  int num_checked = 0, num_stuck = 0;
  const json cells = json::parse(file)["p2p_matrix"];
  for (const json& cell : cells) {
    SCOPED_TRACE(cell.dump());
    std::string name = cell["schedule"];
    if (name.starts_with("f1b1")) name.replace(0, 4, "1f1b");
    std::replace(name.begin(), name.end(), '_', '-');
    const Schedule schedule =
        make_schedule(name, {.ranks = cell["p"], .chunks = cell["v"], .micro_batches = cell["m"]});
    const std::string lowering = cell["lowering"];
    if (lowering == "sender_rr") continue;  // an order of another project
    const Lowered lowered = lowering == "naive"     ? next_to_use(schedule)
                            : lowering == "batched" ? batched(schedule)
                                                    : by_clock(schedule, costs);
    const SystemOf system(schedule, lowered, costs, cell["streams"]);
    const RendezvousResult result = run_rendezvous(system.get());
    EXPECT_EQ(!result.stuck.empty(), cell["deadlock"].get<bool>());
    if (result.stuck.empty()) {
      EXPECT_NEAR(result.makespan, cell["makespan"].get<double>(), 1e-3);
    } else {
      EXPECT_EQ(vector_text(system.get(), result), cell["first_stuck"].get<std::string>());
      ++num_stuck;
    }
    ++num_checked;
  }
  EXPECT_EQ(num_checked, 110);
  EXPECT_EQ(num_stuck, 40);
}

TEST(IssueByClock, NeverDeadlocksOnOneQueueWhateverTheSchedule) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int ranks : {2, 4, 6}) {
      const ScheduleShape shape{.ranks = ranks,
                                .chunks = kind.chunks == 0 ? 3 : kind.chunks,
                                .micro_batches = 2 * ranks + 2};
      const Schedule schedule = make_schedule(kind.name, shape);
      for (const double latency : {0.0, 0.3, 2.5}) {
        const ScheduleCosts costs{.input = 1.5, .weight = 0.5, .latency = latency};
        for (const char* const streams : {"one", "comm1", "dir"}) {
          const SystemOf system(schedule, by_clock(schedule, costs), costs, streams);
          EXPECT_TRUE(run_rendezvous(system.get()).stuck.empty())
              << kind.name << " ranks " << ranks << " latency " << latency << ' ' << streams;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
