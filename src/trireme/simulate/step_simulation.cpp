#include "trireme/simulate/step_simulation.h"

#include <utility>

#include "trireme/program/build.h"
#include "trireme/simulate/device_prices.h"

namespace trireme {

StepSimulation simulate_pipeline(BuildRequest request, const Cluster& cluster) {
  request.spec = resolved(request.spec);
  check_layout(request.spec, request.layout, request.batch);
  const Mesh mesh = request.layout.mesh();
  StepSimulation simulation;
  for (int stage = 0; stage < request.layout.pp; ++stage) {
    request.rank = mesh.rank_of({.pp = stage});
    simulation.programs.push_back(build_train(request));
    simulation.placements.push_back(place({&simulation.programs.back()}));
  }
  const DevicePrices prices(cluster);
  simulation.clock = price_step(simulation.programs, prices.step_prices());
  return simulation;
}

}  // namespace trireme
