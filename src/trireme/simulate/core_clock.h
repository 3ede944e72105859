// The steps of ranks on a clock: threads that share the cores of one machine, or devices.
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

/// When an op ran: from when it and all that it meets had begun.
struct OpTime {
  double start = 0;
  double end = 0;
};

struct CoreClock {
  double makespan = 0;
  std::vector<double> busy;  ///< by rank: seconds in which its compute queue (0) computes
  std::vector<std::vector<OpTime>> times = {};  ///< by rank and position
};

/// Ops start as run_rendezvous() has it; one whose start another queue releases, or that
/// waits for others to meet it, `wake_seconds` later. While the running ops have as many threads as
/// there are cores, or fewer, each has a core (between one thread and all cores busy its seconds
/// change linearly); when they have more, all share the cores evenly. With `num_cores` 0 each rank
/// has a device of its own, busy while its compute queue and another one run side by side. `ops` by
/// rank and position. A meeting takes place among those of its members that the system has.
/// InternalError for a system that deadlocks.
[[nodiscard]] CoreClock run_core_clock(const RendezvousSystem& system,
                                       const std::vector<std::vector<CoreOp>>& ops, int num_cores,
                                       double wake_seconds);

}  // namespace trireme
