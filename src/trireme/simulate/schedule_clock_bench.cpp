// Simulated steps of a pipeline of 16 stages and 64 micro-batches, on one core.
#include "trireme/simulate/schedule_clock.h"

#include <benchmark/benchmark.h>

#include "trireme/cost/known_models.h"
#include "trireme/cost/stages.h"

namespace trireme {
namespace {

void BM_SimulatedLayout(benchmark::State& state, const char* schedule, int chunks) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("megatron", cluster);
  Workload workload{.model = known_model("80B").value(),
                    .layout = {.pp = 16, .tp = 4},
                    .batch = {.seq = 4096, .micro_batch = 1, .global_batch = 64}};
  workload.layout.schedule = schedule;
  workload.layout.chunks = chunks;
  const std::vector<StageShare> shares = stage_shares(workload, profile.split);
  ScheduleClock clock;
  for (auto _ : state)
    benchmark::DoNotOptimize(clock.step_seconds(workload, cluster, profile, shares).total());
  state.counters["layouts_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(BM_SimulatedLayout, one_f_one_b, "1f1b", 1);
BENCHMARK_CAPTURE(BM_SimulatedLayout, interleaved, "interleaved", 2);
BENCHMARK_CAPTURE(BM_SimulatedLayout, zero_bubble_v, "zb-v", 2);

}  // namespace
}  // namespace trireme
