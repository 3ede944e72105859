// Tests only: programs and schedules with a forward of 1 unit and gradients of 1 unit each.
#pragma once

#include <utility>

#include "trireme/program/schedules/virtual_clock.h"
#include "trireme/program/step_clock.h"

namespace trireme {

inline constexpr ScheduleCosts kUnits{};

/// The weight half of a stage without layers has nothing to do.
inline double unit_seconds(const Program& program, const Call& call) {
  const auto op = stage_op_of(program, call);
  if (!op || program.at(call.template_index).instructions.empty()) return 0;
  return op->phase == Phase::kBackward ? kUnits.input + kUnits.weight : 1;
}

/// Forwards and backwards that may run together run one after the other: one device has one
/// compute stream.
inline Schedule one_by_one(Schedule schedule) {
  for (Order& order : schedule.orders) {
    Order flat;
    for (const ScheduleStep& step : order)
      for_each_op(step, [&](const StageOp& op) { flat.push_back({.op = op}); });
    order = std::move(flat);
  }
  return schedule;
}

}  // namespace trireme
