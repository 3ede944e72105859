// Appends ops to a rank's order.
#pragma once

#include <utility>

#include "trireme/program/schedules/schedule.h"

namespace trireme {

class OrderWriter {
 public:
  void forward(int stage, int micro_batch) { add(Phase::kForward, stage, micro_batch); }
  void backward(int stage, int micro_batch) { add(Phase::kBackward, stage, micro_batch); }
  void input(int stage, int micro_batch) { add(Phase::kBackwardInput, stage, micro_batch); }
  void weight(int stage, int micro_batch) { add(Phase::kBackwardWeight, stage, micro_batch); }
  /// A forward and a backward at the same time.
  void pair(const StageOp& forward, const StageOp& backward) {
    order_.push_back({.op = forward, .paired = backward});
  }
  [[nodiscard]] Order take() { return std::move(order_); }

 private:
  void add(Phase phase, int stage, int micro_batch) {
    order_.push_back({.op = {.phase = phase, .stage = stage, .micro_batch = micro_batch}});
  }
  Order order_;
};

}  // namespace trireme
