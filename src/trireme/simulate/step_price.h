// Seconds of a step: the programs of ranks, each instruction priced by some hardware.
#pragma once

#include <functional>
#include <vector>

#include "trireme/program/program.h"
#include "trireme/simulate/core_clock.h"

namespace trireme {

class LocalModel;

/// What instructions take on some hardware, and what they share: the seam between the clock and the
/// calibrated machine or published cluster.
struct StepPrices {
  /// Of an instruction of a program; the model is that of the program.
  std::function<CoreOp(const Program&, const LocalModel&, const Instruction&)> price;
  int num_cores = 0;        ///< that all ranks share; 0 = each rank has a device of its own
  double wake_seconds = 0;  ///< see run_core_clock()
  double step_seconds = 0;  ///< of a step, before its first and after its last instruction
};

/// A calibrated machine on which each rank is a thread with a team of `num_threads`. `prices`
/// outlives the result.
[[nodiscard]] StepPrices machine_step_prices(const MachinePrices& prices, int num_threads);

/// The training step of `programs`: one for each rank of a world, or of some of its ranks; then
/// collectives do not wait for members that are missing. They verify.
[[nodiscard]] CoreClock price_step(const std::vector<Program>& programs, const StepPrices& prices);

}  // namespace trireme
