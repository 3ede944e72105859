// A training step on the clock, with the programs and memory of its ranks.
#pragma once

#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/program/place.h"
#include "trireme/program/program.h"
#include "trireme/simulate/core_clock.h"

namespace trireme {

struct StepSimulation {
  std::vector<Program> programs;      ///< of the ranks that were simulated
  std::vector<Placement> placements;  ///< of each program alone
  CoreClock clock;
};

/// The step on a published cluster: the programs of the pipeline's ranks that are first along dp,
/// cp and tp, which hold the largest shards; collectives along those axes do not wait for their
/// peers, which do the same at the same time (but for shards of ZeRO, whose number of pieces can
/// differ). Throws UsageError for a layout that the trainer would
/// refuse.
[[nodiscard]] StepSimulation simulate_pipeline(BuildRequest request, const Cluster& cluster);

}  // namespace trireme
