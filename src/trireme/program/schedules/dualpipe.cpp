// DualPipe (DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1): micro-batches enter at both ends,
// and a forward of one direction runs with a backward of the other. DualPipeV is its half with two
// chunks a rank in a V and no second copy of the parameters.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

/// The two ways through a rank: near is passed first, far second. Ops of a way are numbered from 0.
enum class Way : std::uint8_t { kNear, kFar };

struct WayOp {
  Phase phase{};
  Way way{};
  int number = 0;
};

/// The eight steps of the schedule for a rank at `position` of `half` (0 = outermost).
class TwoWays {
 public:
  /// `is_middle`: its two ways meet here, so that its first pair cannot run together.
  TwoWays(int half, int position, int num_each, bool is_middle)
      : half_(half), position_(position), num_each_(num_each), is_middle_(is_middle) {}

  /// (op, paired) with one op unless two run together.
  std::vector<std::vector<WayOp>> run() {
    const int inner = half_ - position_ - 1;
    repeat(2 * inner, [&] { forward(Way::kNear); });
    repeat(position_ + 1, [&] { forward(Way::kNear), forward(Way::kFar); });
    repeat(inner, [&] { input(Way::kFar), weight(), forward(Way::kFar); });
    main_part();
    repeat(inner, [&] { backward(Way::kFar), pair(Way::kFar, Way::kNear); });
    turn_to_halves();
    repeat(inner, [&] { weight(), input(Way::kNear); });
    repeat(position_ + 1, [&] { weight(); });
    return std::move(steps_);
  }

 private:
  template <typename Body>
  static void repeat(int times, Body body) {
    for (int i = 0; i < times; ++i) body();
  }

  void main_part() {
    for (int i = 0; i < num_each_ - 2 * half_ + position_ + 1; ++i) {
      if (i == 0 && is_middle_) {
        forward(Way::kNear), backward(Way::kFar);
      } else {
        pair(Way::kNear, Way::kFar);
      }
      pair(Way::kFar, Way::kNear);
    }
  }

  /// Backwards of both ways; from the middle on their weight halves wait.
  void turn_to_halves() {
    const int turn = (position_ + 1) / 2;
    const bool turns_before_far = position_ % 2 == 1;
    for (int i = 0; i <= position_; ++i) {
      const bool far_is_split = i > turn || (i == turn && turns_before_far);
      far_is_split ? input(Way::kFar) : backward(Way::kFar);
      i >= turn ? input(Way::kNear) : backward(Way::kNear);
    }
  }

  int next(Phase phase, Way way) { return numbers_[{phase == Phase::kForward, way}]++; }
  WayOp op(Phase phase, Way way) {
    return {.phase = phase, .way = way, .number = next(phase, way)};
  }
  void forward(Way way) { steps_.push_back({op(Phase::kForward, way)}); }
  void backward(Way way) { steps_.push_back({op(Phase::kBackward, way)}); }
  void input(Way way) {
    const WayOp half = op(Phase::kBackwardInput, way);
    steps_.push_back({half});
    waiting_.push_back({.phase = Phase::kBackwardWeight, .way = way, .number = half.number});
  }
  void weight() {
    steps_.push_back({waiting_.front()});
    waiting_.pop_front();
  }
  void pair(Way forward_way, Way backward_way) {
    steps_.push_back({op(Phase::kForward, forward_way), op(Phase::kBackward, backward_way)});
  }

  int half_;
  int position_;
  int num_each_;
  bool is_middle_;
  std::map<std::pair<bool, Way>, int> numbers_;
  std::deque<WayOp> waiting_;  ///< weight halves
  std::vector<std::vector<WayOp>> steps_;
};

/// Where a way of a rank leads: its stage, and its first micro-batch.
struct WayPlace {
  int stage = 0;
  int first_micro_batch = 0;
};

Order placed(const std::vector<std::vector<WayOp>>& steps, WayPlace near, WayPlace far) {
  const auto placed_op = [&](const WayOp& op) {
    const WayPlace& place = op.way == Way::kNear ? near : far;
    return StageOp{.phase = op.phase,
                   .stage = place.stage,
                   .micro_batch = place.first_micro_batch + op.number};
  };
  Order order;
  for (const auto& step : steps) {
    ScheduleStep& entry = order.emplace_back(ScheduleStep{.op = placed_op(step.front())});
    if (step.size() > 1) entry.paired = placed_op(step.back());
  }
  return order;
}

std::vector<Order> dualpipe_orders(const ScheduleShape& shape) {
  const int p = shape.ranks, half = shape.micro_batches / 2;
  std::vector<Order> orders;
  for (int rank = 0; rank < p; ++rank) {
    const int position = std::min(rank, p - 1 - rank);
    const bool is_first_half = rank < p / 2;
    // The first half of the micro-batches enters at rank 0.
    const WayPlace near{.stage = position, .first_micro_batch = is_first_half ? 0 : half};
    const WayPlace far{.stage = p - 1 - position, .first_micro_batch = is_first_half ? half : 0};
    orders.push_back(
        placed(TwoWays(p / 2, position, half, position == p / 2 - 1).run(), near, far));
  }
  return orders;
}

std::vector<Order> dualpipe_v_orders(const ScheduleShape& shape) {
  const int p = shape.ranks;
  std::vector<Order> orders;
  for (int rank = 0; rank < p; ++rank) {
    orders.push_back(placed(TwoWays(p, rank, shape.micro_batches, rank == p - 1).run(),
                            {.stage = rank}, {.stage = 2 * p - 1 - rank}));
  }
  return orders;
}

std::string dualpipe_refusal(const ScheduleShape& shape) {
  if (shape.ranks % 2 != 0) return fmt::format("needs an even pp; use pp = {}", shape.ranks + 1);
  const int least = 2 * shape.ranks;
  if (shape.micro_batches >= least && shape.micro_batches % 2 == 0) return "";
  return fmt::format("needs an even number of at least 2 pp; use {} micro-batches",
                     std::max(least, shape.micro_batches + shape.micro_batches % 2));
}

std::string dualpipe_v_refusal(const ScheduleShape& shape) {
  if (shape.micro_batches >= 2 * shape.ranks) return "";
  return fmt::format("needs at least 2 pp; use {} or more micro-batches", 2 * shape.ranks);
}

}  // namespace

ScheduleKind dualpipe_schedule() {
  return {.name = "dualpipe",
          .doc = "two directions at once, two copies of the parameters (arXiv:2412.19437)",
          .chunks = 2,
          .is_bidirectional = true,
          .refusal = dualpipe_refusal,
          .orders = dualpipe_orders};
}

ScheduleKind dualpipe_v_schedule() {
  return {.name = "dualpipe-v",
          .doc = "DualPipe cut in half: two chunks a rank in a V, one copy (arXiv:2412.19437)",
          .chunks = 2,
          .refusal = dualpipe_v_refusal,
          .orders = dualpipe_v_orders};
}

}  // namespace trireme
