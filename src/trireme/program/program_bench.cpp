// Cost of a program: what happens before the first step, on one rank.
#include <benchmark/benchmark.h>

#include "trireme/base/errors.h"
#include "trireme/program/build.h"
#include "trireme/program/place.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

BuildRequest big_request(std::int64_t layers, std::int64_t micro_batches) {
  const Layout layout{.dp = 8, .zero = 1, .recompute = Recompute::kSelective};
  return {.spec = resolved({.family = Family::kLlama,
                            .layers = layers,
                            .hidden = 4096,
                            .heads = 32,
                            .kv_heads = 8,
                            .ffn = 14336,
                            .vocab = 128256,
                            .max_seq = 8192}),
          .layout = layout,
          .batch = {.seq = 4096, .micro_batch = 1, .global_batch = 8 * micro_batches}};
}

void BM_Build(benchmark::State& state) {
  const BuildRequest request = big_request(state.range(0), state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(build_train(request));
}

void BM_Verify(benchmark::State& state) {
  const std::vector<Program> programs = {build_train(big_request(state.range(0), state.range(1)))};
  for (auto _ : state) {
    const auto violation = verify(programs);
    TRI_CHECK(!violation.has_value());
  }
  state.counters["instructions"] = static_cast<double>(programs[0].num_instructions());
}

void BM_Place(benchmark::State& state) {
  const Program program = build_train(big_request(state.range(0), state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(place({&program}));
}

void BM_VerifyPlacement(benchmark::State& state) {
  const Program program = build_train(big_request(state.range(0), state.range(1)));
  const Placement placement = place({&program});
  for (auto _ : state) {
    const auto violation = verify_placement({&program}, placement);
    TRI_CHECK(!violation.has_value());
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"layers", "micro_batches"})->Args({32, 64})->Unit(benchmark::kMillisecond);
}

// The same model and step over a pipeline, one rank of it and all ranks
// --------------------------------------------------------------------------------------------------

BuildRequest piped_request(std::int64_t layers, std::int64_t micro_batches) {
  BuildRequest request = big_request(layers, micro_batches);
  request.layout = {.pp = 4, .dp = 2, .tp = 2, .schedule = "1f1b"};
  request.batch.global_batch = 2 * micro_batches;
  return request;
}

void BM_PipelineBuildVerifyPlace(benchmark::State& state) {
  BuildRequest request = piped_request(state.range(0), state.range(1));
  request.rank = 7;  // in the middle
  for (auto _ : state) {
    const Program program = build_train(request);
    const auto violation = verify({program});
    TRI_CHECK(!violation.has_value());
    benchmark::DoNotOptimize(place({&program}));
  }
}

void BM_PipelineVerifyOneRank(benchmark::State& state) {
  BuildRequest request = piped_request(state.range(0), state.range(1));
  request.rank = 7;
  const std::vector<Program> programs = {build_train(request)};
  for (auto _ : state) {
    const auto violation = verify(programs);
    TRI_CHECK(!violation.has_value());
  }
  state.counters["instructions"] = static_cast<double>(programs[0].num_instructions());
}

void BM_PipelineVerifyAllRanks(benchmark::State& state) {
  BuildRequest request = piped_request(state.range(0), state.range(1));
  std::vector<Program> programs;
  for (request.rank = 0; request.rank < request.layout.world(); ++request.rank)
    programs.push_back(build_train(request));
  for (auto _ : state) {
    const auto violation = verify(programs);
    TRI_CHECK(!violation.has_value());
  }
  state.counters["ranks"] = static_cast<double>(programs.size());
}

BENCHMARK(BM_Build)->Apply(sizes);
BENCHMARK(BM_Verify)->Apply(sizes);
BENCHMARK(BM_Place)->Apply(sizes);
BENCHMARK(BM_VerifyPlacement)->Apply(sizes);
BENCHMARK(BM_PipelineBuildVerifyPlace)->Apply(sizes);
BENCHMARK(BM_PipelineVerifyOneRank)->Apply(sizes);
BENCHMARK(BM_PipelineVerifyAllRanks)->Apply(sizes);

}  // namespace
}  // namespace trireme
