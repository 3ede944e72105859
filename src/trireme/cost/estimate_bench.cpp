// Layouts a second in closed form, on one core.
#include "trireme/cost/estimate.h"

#include <benchmark/benchmark.h>

#include "trireme/cost/known_models.h"

namespace trireme {
namespace {

void BM_Estimate(benchmark::State& state) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("trireme", cluster);
  const Workload workload{
      .model = known_model("80B").value(),
      .layout = {.pp = static_cast<int>(state.range(0)), .dp = 8, .tp = 8, .sp = true, .zero = 1},
      .batch = {.seq = 4096, .micro_batch = 1, .global_batch = 256}};
  for (auto _ : state) benchmark::DoNotOptimize(estimate(workload, cluster, profile));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Estimate)->ArgName("stages")->Arg(1)->Arg(8)->Arg(40);

}  // namespace
}  // namespace trireme
