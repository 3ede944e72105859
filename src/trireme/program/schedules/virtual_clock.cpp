#include "trireme/program/schedules/virtual_clock.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

void check_costs(const ScheduleCosts& costs) {
  for (const auto& [name, value] :
       {std::pair("F", costs.forward), std::pair("I", costs.input), std::pair("W", costs.weight),
        std::pair("C", costs.latency), std::pair("OV", costs.overlapped)}) {
    constexpr double kMost = 1e12;
    if (value >= 0 && value <= kMost) continue;
    throw UsageError(fmt::format("[simulate] cost {} = {}: must be from 0 to {}; correct it", name,
                                 value, kMost));
  }
}

double duration_of(const ScheduleStep& step, const ScheduleCosts& costs) {
  if (step.paired) {
    const double sum = costs.forward + costs.input + costs.weight;
    return costs.overlapped > 0 ? costs.overlapped : sum;
  }
  switch (step.op.phase) {
    case Phase::kForward:
      return costs.forward;
    case Phase::kBackward:
      return costs.input + costs.weight;
    case Phase::kBackwardInput:
      return costs.input;
    case Phase::kBackwardWeight:
      return costs.weight;
  }
  return 0;
}

/// When a forward, or a gradient of the input, was complete, and on which rank.
struct Done {
  bool is_done = false;
  double time = 0;
  int rank = 0;
};

class VirtualClock {
 public:
  VirtualClock(const Schedule& schedule, const ScheduleCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        forward_(static_cast<std::size_t>(schedule.num_stages) *
                 static_cast<std::size_t>(schedule.num_micro_batches)),
        backward_(forward_.size()),
        next_(schedule.orders.size(), 0),
        now_(schedule.orders.size(), 0.0) {
    times_.starts.resize(schedule.orders.size());
    times_.ends.resize(schedule.orders.size());
    times_.busy.resize(schedule.orders.size());
  }

  ScheduleTimes run() {
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (std::size_t rank = 0; rank < schedule_.orders.size(); ++rank) {
        while (next_[rank] < schedule_.orders[rank].size() && try_next(rank)) has_moved = true;
      }
    }
    require_all_done();
    for (const auto& ends : times_.ends) {
      for (const double end : ends) times_.makespan = std::max(times_.makespan, end);
    }
    return std::move(times_);
  }

 private:
  [[nodiscard]] std::size_t index(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.num_micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }

  /// Earliest time for an op; nothing while something that it needs has not run.
  [[nodiscard]] std::optional<double> ready(int rank, const StageOp& op) const {
    double time = 0;
    bool is_ready = true;
    const auto need = [&](const Done& done) {
      is_ready = is_ready && done.is_done;
      time = std::max(time, done.time + (done.rank == rank ? 0.0 : costs_.latency));
    };
    if (op.phase == Phase::kForward) {
      if (op.stage > 0) need(forward_[index(op.stage - 1, op.micro_batch)]);
    } else if (makes_input_gradient(op.phase)) {
      need(forward_[index(op.stage, op.micro_batch)]);
      if (op.stage + 1 < schedule_.num_stages) need(backward_[index(op.stage + 1, op.micro_batch)]);
    } else {
      need(backward_[index(op.stage, op.micro_batch)]);
    }
    return is_ready ? std::optional(time) : std::nullopt;
  }

  bool try_next(std::size_t rank) {
    const ScheduleStep& step = schedule_.orders[rank][next_[rank]];
    double start = now_[rank];
    bool is_ready = true;
    for_each_op(step, [&](const StageOp& op) {
      const auto time = ready(static_cast<int>(rank), op);
      is_ready = is_ready && time.has_value();
      start = std::max(start, time.value_or(0));
    });
    if (!is_ready) return false;
    const double duration = duration_of(step, costs_), end = start + duration;
    for_each_op(step, [&](const StageOp& op) {
      const Done done{.is_done = true, .time = end, .rank = static_cast<int>(rank)};
      if (op.phase == Phase::kForward) forward_[index(op.stage, op.micro_batch)] = done;
      if (makes_input_gradient(op.phase)) backward_[index(op.stage, op.micro_batch)] = done;
    });
    times_.starts[rank].push_back(start);
    times_.ends[rank].push_back(end);
    times_.busy[rank] += duration;
    now_[rank] = end;
    ++next_[rank];
    return true;
  }

  void require_all_done() const {
    std::string stuck;
    for (std::size_t rank = 0; rank < schedule_.orders.size(); ++rank) {
      if (next_[rank] == schedule_.orders[rank].size()) continue;
      stuck += fmt::format("{}rank {} at {}", stuck.empty() ? "" : ", ", rank,
                           step_text(schedule_.orders[rank][next_[rank]]));
    }
    if (stuck.empty()) return;
    throw UsageError(fmt::format(
        "[schedule] {}: the ranks wait for each other, {}: an order must run what others "
        "need first; correct it",
        schedule_.name, stuck));
  }

  const Schedule& schedule_;
  const ScheduleCosts& costs_;
  std::vector<Done> forward_, backward_;  ///< by (stage, micro-batch)
  std::vector<std::size_t> next_;         ///< by rank
  std::vector<double> now_;               ///< by rank
  ScheduleTimes times_;
};

/// Most ops between their forward and an op of one of two phases.
int most_in_flight(const Order& order, Phase whole, Phase half) {
  int now = 0, most = 0;
  for (const ScheduleStep& step : order) {
    for_each_op(step, [&](const StageOp& op) {
      if (op.phase == Phase::kForward) most = std::max(most, ++now);
    });
    for_each_op(step, [&](const StageOp& op) {
      if (op.phase == whole || op.phase == half) --now;
    });
  }
  return most;
}

}  // namespace

double ScheduleTimes::bubble_ratio() const {
  if (makespan <= 0) return 0;
  return 1.0 - *std::max_element(busy.begin(), busy.end()) / makespan;
}

ScheduleTimes run_virtual_clock(const Schedule& schedule, const ScheduleCosts& costs) {
  check_costs(costs);
  ScheduleTimes times = VirtualClock(schedule, costs).run();
  for (const Order& order : schedule.orders) {
    times.in_flight.push_back(most_in_flight(order, Phase::kBackward, Phase::kBackwardInput));
    times.in_flight_until_weight.push_back(
        most_in_flight(order, Phase::kBackward, Phase::kBackwardWeight));
  }
  return times;
}

}  // namespace trireme
