#include "trireme/simulate/layout_price.h"

#include <utility>

#include "trireme/execute/rank_programs.h"
#include "trireme/program/build.h"
#include "trireme/simulate/step_price.h"

namespace trireme {

StepSimulation simulate_ranks(const BuildRequest& request, int threads_per_rank,
                              const Cluster& cluster) {
  const MachinePrices prices(cluster);
  std::vector<std::vector<Program>> programs;
  BuildRequest of_rank = request;
  for (of_rank.rank = 0; of_rank.rank < request.layout.world(); ++of_rank.rank)
    programs.push_back({build_train(of_rank)});
  StepSimulation simulation;
  for (RankPrograms& rank : make_ready(std::move(programs), threads_per_rank)) {
    simulation.placements.push_back(std::move(rank.placement));
    simulation.programs.push_back(std::move(rank.programs.front()));
  }
  simulation.clock = price_step(simulation.programs, machine_step_prices(prices, threads_per_rank));
  return simulation;
}

StepSimulation simulate_step(const BuildRequest& request, int threads_per_rank,
                             const Cluster& cluster) {
  return cluster.is_cpu ? simulate_ranks(request, threads_per_rank, cluster)
                        : simulate_pipeline(request, cluster);
}

ProgramPrice price_layout(const BuildRequest& request, int threads_per_rank,
                          const Cluster& cluster) {
  StepSimulation simulation = simulate_ranks(request, threads_per_rank, cluster);
  ProgramPrice price{.step_seconds = simulation.clock.makespan,
                     .busy_seconds = std::move(simulation.clock.busy)};
  for (const Placement& placement : simulation.placements)
    price.arena_bytes.push_back(placement.arena_bytes);
  price.first_rank_bytes = simulation.placements.front().kind_bytes;
  return price;
}

}  // namespace trireme
