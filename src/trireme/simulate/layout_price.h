// A layout on the clock, and its price on a calibrated machine: programs that the trainer would
// run.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/program/place.h"
#include "trireme/program/program.h"
#include "trireme/simulate/step_simulation.h"

namespace trireme {

struct ProgramPrice {
  double step_seconds = 0;
  std::vector<double> busy_seconds = {};  ///< by rank: in which it computes
  /// By rank; as the trainer allocates without evaluation.
  std::vector<std::int64_t> arena_bytes = {};
  KindBytes first_rank_bytes{};  ///< of rank 0, by kind
};

/// Builds, verifies and places the training programs of all ranks of `request` (whose rank is
/// ignored), each with a team of `threads_per_rank`, and runs them on a clock (price_step). Throws
/// UsageError as the builder does, and unless `cluster` is a calibrated machine.
[[nodiscard]] StepSimulation simulate_ranks(const BuildRequest& request, int threads_per_rank,
                                            const Cluster& cluster);

/// On a calibrated machine that; on a published cluster simulate_pipeline(), `threads_per_rank`
/// ignored.
[[nodiscard]] StepSimulation simulate_step(const BuildRequest& request, int threads_per_rank,
                                           const Cluster& cluster);

/// simulate_ranks() in short.
[[nodiscard]] ProgramPrice price_layout(const BuildRequest& request, int threads_per_rank,
                                        const Cluster& cluster);

}  // namespace trireme
