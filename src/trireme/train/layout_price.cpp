#include "trireme/train/layout_price.h"

#include <utility>

#include "trireme/execute/rank_programs.h"
#include "trireme/program/build.h"
#include "trireme/simulate/step_price.h"

namespace trireme {

ProgramPrice price_layout(const BuildRequest& request, int threads_per_rank,
                          const Cluster& cluster) {
  const MachinePrices prices(cluster);
  std::vector<std::vector<Program>> programs;
  BuildRequest of_rank = request;
  for (of_rank.rank = 0; of_rank.rank < request.layout.world(); ++of_rank.rank)
    programs.push_back({build_train(of_rank)});
  ProgramPrice price;
  std::vector<Program> trained;
  for (RankPrograms& rank : make_ready(std::move(programs), threads_per_rank)) {
    if (price.arena_bytes.empty()) price.first_rank_bytes = rank.placement.kind_bytes;
    price.arena_bytes.push_back(rank.placement.arena_bytes);
    trained.push_back(std::move(rank.programs.front()));
  }
  CoreClock clock = price_step(trained, threads_per_rank, prices);
  price.step_seconds = clock.makespan;
  price.busy_seconds = std::move(clock.busy);
  return price;
}

}  // namespace trireme
