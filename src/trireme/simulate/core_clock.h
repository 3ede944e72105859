// The steps of all ranks on a clock, where ranks are threads that share the cores of one machine.
#pragma once

#include <vector>

#include "trireme/program/rendezvous.h"
#include "trireme/simulate/machine_prices.h"

namespace trireme {

/// What an op of a RendezvousSystem asks of the machine.
struct CoreOp {
  CoreSeconds seconds;  ///< of a communication: from when all have met
  int threads = 1;      ///< that it keeps busy; 0 = it sleeps
};

struct CoreClock {
  double makespan = 0;
  std::vector<double> busy;  ///< by rank: seconds in which its compute queue (0) computes
};

/// Ops start as run_rendezvous() has it; one whose start another queue releases, or that
/// waits for others to meet it, `wake_seconds` later. While the running ops have as many threads as
/// there are cores, or fewer, each has a core (between one thread and all cores busy its seconds
/// change linearly); when they have more, all share the cores evenly. `ops` by rank and position.
/// InternalError for a system that deadlocks.
[[nodiscard]] CoreClock run_core_clock(const RendezvousSystem& system,
                                       const std::vector<std::vector<CoreOp>>& ops, int num_cores,
                                       double wake_seconds);

}  // namespace trireme
