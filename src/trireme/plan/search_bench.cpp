// The search over all layouts of the Playbook's 80 B model on 512 GPUs, with all cores.
#include "trireme/plan/search.h"

#include <benchmark/benchmark.h>

#include "trireme/plan/plan_test_request.h"

namespace trireme {
namespace {

void BM_Search(benchmark::State& state) {
  const PlanRequest request = plan_request("80B", static_cast<int>(state.range(0)), 256);
  const PlanSpace space(request);
  for (auto _ : state) benchmark::DoNotOptimize(search(space, {}).fitting.size());
  state.counters["layouts_per_second"] = benchmark::Counter(
      static_cast<double>(state.iterations() * space.num_layouts()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Search)->ArgName("gpus")->Arg(512)->Arg(4096)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace trireme
