// Seconds of a step: the programs of all ranks, each instruction priced by a calibrated machine.
#pragma once

#include <vector>

#include "trireme/program/program.h"
#include "trireme/simulate/core_clock.h"

namespace trireme {

/// The training step of `programs`, one for each rank of a world, on one machine where each is a
/// thread with a team of `num_threads`. They verify.
[[nodiscard]] CoreClock price_step(const std::vector<Program>& programs, int num_threads,
                                   const MachinePrices& prices);

}  // namespace trireme
