// A simulated schedule as a timeline.
#pragma once

#include "trireme/program/schedules/schedule.h"
#include "trireme/program/schedules/virtual_clock.h"
#include "trireme/report/trace.h"

namespace trireme {

/// One event per entry of the orders: "F3", with its stage ("2F3") where ranks hold several, and
/// both ops ("0F3&3B5") where two run together.
[[nodiscard]] Timeline schedule_timeline(const Schedule& schedule, const ScheduleTimes& times);

}  // namespace trireme
