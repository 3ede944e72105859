// The messages between the stages of a schedule, and the order in which ranks issue them.
#pragma once

#include <optional>
#include <vector>

#include "trireme/program/schedules/schedule.h"
#include "trireme/program/schedules/virtual_clock.h"

namespace trireme {

/// An activation that goes to the next stage, or a gradient that goes to the one before.
struct StageMessage {
  bool is_gradient = false;
  int stage = 0;  ///< that makes it
  int micro_batch = 0;
  int source = 0;  ///< ranks
  int target = 0;
  bool operator==(const StageMessage&) const = default;
};

/// What an op needs from another rank, and what it makes for one.
class MessageTable {
 public:
  explicit MessageTable(const Schedule& schedule);

  [[nodiscard]] int rank_of(int stage, int micro_batch) const;
  /// Nothing if the data comes from the same rank, or from nowhere.
  [[nodiscard]] std::optional<StageMessage> needed_by(const StageOp& op) const;
  [[nodiscard]] std::optional<StageMessage> made_by(const StageOp& op) const;

 private:
  [[nodiscard]] std::optional<StageMessage> between(bool is_gradient, int stage, int next,
                                                    int micro_batch) const;
  int num_stages_;
  int num_micro_batches_;
  std::vector<int> ranks_;  ///< by (stage, micro-batch)
};

/// An entry of what a rank issues: a computation, or its end of a message.
struct Issue {
  int step = -1;                             ///< entry of the rank's order; -1: a message
  std::optional<StageMessage> message = {};  ///< sent if this rank is its source
};

/// A rank's computations and messages in the order of the virtual clock: a message is issued on
/// both ends when it is made. This is one order for all ranks, of which the rendezvous of sends and
/// receives is a part: no deadlock on any number of streams, with or without buffered sends. Ties:
/// messages before computations, then by rank. UsageError unless forward and input cost more than
/// 0: a message is made after it is begun.
[[nodiscard]] std::vector<Issue> issue_by_clock(const Schedule& schedule,
                                                const ScheduleCosts& costs, int of_rank);

}  // namespace trireme
