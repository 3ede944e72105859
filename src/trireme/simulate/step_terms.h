// What a simulated step is made of.
#pragma once

#include <vector>

#include "trireme/cost/estimate.h"
#include "trireme/program/program.h"
#include "trireme/simulate/core_clock.h"
#include "trireme/simulate/step_simulation.h"

namespace trireme {

/// Each moment of one rank's step counts once: as computation (or optimizer) while it computes,
/// else as communication along an axis, else as bubble. dp has what sums gradients and gathers
/// parameters, also of tied tables. The total is `makespan`; fixed is what lies beyond the last
/// instruction of all ranks, which ends at `last_end`.
[[nodiscard]] StepSeconds step_terms(const Program& program, const std::vector<OpTime>& times,
                                     double last_end, double makespan);

/// Index of the rank that computes longest.
[[nodiscard]] std::size_t busiest_rank(const CoreClock& clock);

/// Of that rank.
[[nodiscard]] StepSeconds step_terms(const StepSimulation& simulation);

}  // namespace trireme
