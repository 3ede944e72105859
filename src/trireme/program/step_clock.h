// The programs of one step on a clock: when all ranks are done if calls last as long as given.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trireme/program/program.h"
#include "trireme/program/schedules/schedule.h"

namespace trireme {

/// Seconds (or units) of the compute instructions of a call.
using CallSeconds = std::function<double(const Program& program, const Call& call)>;

struct StepClock {
  double makespan = 0;
  std::vector<double> busy;  ///< by program: sum of its calls
};

/// The longest path through the programs of all ranks of a world, each stream in its order, with
/// messages and waits as the programs have them. A call lasts from when all that its compute
/// instructions wait for has happened; what it makes is there at its end, and messages and
/// collectives take no time. The programs verify; InternalError if some rank is missing.
[[nodiscard]] StepClock run_step_clock(const std::vector<Program>& programs,
                                       const CallSeconds& seconds);

/// What a call of a pipeline computes, by the name of its template ("S2.B.next"); nothing for
/// messages, copies between stages, and what is not part of a micro-batch.
[[nodiscard]] std::optional<StageOp> stage_op_of(const Program& program, const Call& call);

}  // namespace trireme
