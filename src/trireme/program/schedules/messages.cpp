#include "trireme/program/schedules/messages.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {

MessageTable::MessageTable(const Schedule& schedule)
    : num_stages_(schedule.num_stages),
      num_micro_batches_(schedule.num_micro_batches),
      ranks_(static_cast<std::size_t>(schedule.num_stages) *
                 static_cast<std::size_t>(schedule.num_micro_batches),
             -1) {
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    for (const ScheduleStep& step : schedule.orders[static_cast<std::size_t>(rank)]) {
      for_each_op(step, [&](const StageOp& op) {
        ranks_.at(static_cast<std::size_t>(op.stage) *
                      static_cast<std::size_t>(num_micro_batches_) +
                  static_cast<std::size_t>(op.micro_batch)) = rank;
      });
    }
  }
}

int MessageTable::rank_of(int stage, int micro_batch) const {
  return ranks_.at(static_cast<std::size_t>(stage) * static_cast<std::size_t>(num_micro_batches_) +
                   static_cast<std::size_t>(micro_batch));
}

std::optional<StageMessage> MessageTable::between(bool is_gradient, int stage, int next,
                                                  int micro_batch) const {
  if (stage < 0 || stage >= num_stages_ || next < 0 || next >= num_stages_) return std::nullopt;
  const int source = rank_of(stage, micro_batch), target = rank_of(next, micro_batch);
  if (source == target) return std::nullopt;
  return StageMessage{.is_gradient = is_gradient,
                      .stage = stage,
                      .micro_batch = micro_batch,
                      .source = source,
                      .target = target};
}

std::optional<StageMessage> MessageTable::needed_by(const StageOp& op) const {
  if (op.phase == Phase::kForward) return between(false, op.stage - 1, op.stage, op.micro_batch);
  if (makes_input_gradient(op.phase)) return between(true, op.stage + 1, op.stage, op.micro_batch);
  return std::nullopt;
}

std::optional<StageMessage> MessageTable::made_by(const StageOp& op) const {
  if (op.phase == Phase::kForward) return between(false, op.stage, op.stage + 1, op.micro_batch);
  if (makes_input_gradient(op.phase)) return between(true, op.stage, op.stage - 1, op.micro_batch);
  return std::nullopt;
}

std::vector<Issue> issue_by_clock(const Schedule& schedule, const ScheduleCosts& costs,
                                  int of_rank) {
  struct Event {
    double time = 0;
    bool is_computation = false;
    int rank = 0;
    Issue issue;
  };
  if (!(costs.forward > 0) || !(costs.input > 0)) {
    throw UsageError(
        fmt::format("[schedule] costs F = {}, I = {}: must be above 0 to order messages; use 1",
                    costs.forward, costs.input));
  }
  const ScheduleTimes times = run_virtual_clock(schedule, costs);
  const MessageTable messages(schedule);
  std::vector<Event> events;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i < schedule.orders[r].size(); ++i) {
      if (rank == of_rank)
        events.push_back({times.starts[r][i], true, rank, {.step = static_cast<int>(i)}});
      for_each_op(schedule.orders[r][i], [&](const StageOp& op) {
        const auto message = messages.made_by(op);
        if (message && (rank == of_rank || message->target == of_rank))
          events.push_back({times.ends[r][i], false, rank, {.message = message}});
      });
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.time, a.is_computation, a.rank) < std::tie(b.time, b.is_computation, b.rank);
  });
  std::vector<Issue> issued;
  for (const Event& event : events) issued.push_back(event.issue);
  return issued;
}

}  // namespace trireme
