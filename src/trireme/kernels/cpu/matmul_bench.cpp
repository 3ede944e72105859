// Products of one GPT-2 124M layer over 1024 tokens.
#include "trireme/kernels/cpu/matmul.h"

#include <utility>

#include "trireme/kernels/cpu/bench_support.h"

namespace trireme::kernels {
namespace {

void BM_Matmul(benchmark::State& state) {
  const MatmulShape shape = {.kind = static_cast<MatmulKind>(state.range(1)),
                             .m = 1024,
                             .n = state.range(2),
                             .k = state.range(3),
                             .accumulate = state.range(1) == 2,
                             .dtype = state.range(5) == 1 ? DType::kBf16 : DType::kF32};
  omp_set_num_threads(static_cast<int>(state.range(0)));
  Matmul matmul(shape, static_cast<MatmulEngine>(state.range(4)));
  const std::int64_t largest = std::max({shape.m * shape.n, shape.m * shape.k, shape.n * shape.k});
  Buffer a(largest), b(largest), out(largest), scratch(matmul.scratch_bytes() / 4 + 16);
  for (auto _ : state) matmul.run(a.at(), b.at(), nullptr, out.at(), scratch.at());
  state.SetLabel(matmul.implementation());
  report_flops(state, 2.0 * static_cast<double>(shape.m * shape.n * shape.k));
}
void layer_products(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t kind : {0, 1, 2}) {
      for (const auto& [n, k] : {std::pair{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}}) {
        bench->Args({threads, kind, n, k, 1, 0});  // oneDNN
        bench->Args({threads, kind, n, k, 2, 0});  // packed
        bench->Args({threads, kind, n, k, 0, 1});  // bf16
      }
    }
  }
}
BENCHMARK(BM_Matmul)
    ->ArgNames({"threads", "kind", "n", "k", "engine", "bf16"})
    ->Apply(layer_products)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::kernels
