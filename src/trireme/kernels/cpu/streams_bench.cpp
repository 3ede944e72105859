// Kernels that memory bounds, as bytes read and written a second, beside a plain copy.
#include <cstring>

#include "trireme/kernels/cpu/activation.h"
#include "trireme/kernels/cpu/bench_support.h"
#include "trireme/kernels/cpu/dropout.h"
#include "trireme/kernels/cpu/norm.h"
#include "trireme/kernels/cpu/optimizer.h"

namespace trireme::kernels {
namespace {

constexpr std::int64_t kElems = 1 << 24;
constexpr std::int64_t kTokens = 4096, kHidden = 768, kFfn = 3072;

void BM_Copy(benchmark::State& state) {
  Buffer from(kElems), to(kElems);
  for (auto _ : state) {
    std::memcpy(to.at(), from.at(), kElems * 4);
    benchmark::ClobberMemory();
  }
  report_bytes(state, kElems * 8);
}
BENCHMARK(BM_Copy)->Unit(benchmark::kMillisecond);

/// The floor of AdamW: four arrays read, three written, one operation an element.
void BM_FourReadsThreeWrites(benchmark::State& state) {
  Buffer a(kElems), b(kElems), c(kElems), d(kElems);
  float *const pa = a.at(), *const pb = b.at(), *const pc = c.at();
  const float* const pd = d.at();
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel for simd num_threads(threads)
    for (std::int64_t i = 0; i < kElems; ++i) {
      pa[i] += pd[i];
      pb[i] += pd[i];
      pc[i] += pd[i];
    }
    benchmark::ClobberMemory();
  }
  report_bytes(state, kElems * 28);
}
BENCHMARK(BM_FourReadsThreeWrites)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Adamw(benchmark::State& state) {
  omp_set_num_threads(static_cast<int>(state.range(0)));
  const bool rounds = state.range(1) == 1;
  Buffer param(kElems), m(kElems), v(kElems), grad(kElems);
  Buffer<Bf16> rounded(rounds ? kElems : 1);
  std::fill(v.at(), v.at() + kElems, 0.1F);
  for (auto _ : state) {
    adamw_step({.param = param.at(),
                .m = m.at(),
                .v = v.at(),
                .grad = grad.at(),
                .rounded = rounds ? rounded.at() : nullptr,
                .count = kElems},
               {.lr = 1e-4, .weight_decay = 0.1});
  }
  report_bytes(state, kElems * (rounds ? 30 : 28));
}
BENCHMARK(BM_Adamw)
    ->ArgNames({"threads", "bf16"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_SumOfSquares(benchmark::State& state) {
  omp_set_num_threads(1);
  Buffer x(kElems);
  for (auto _ : state) benchmark::DoNotOptimize(sum_of_squares(x.at(), kElems));
  report_bytes(state, kElems * 4);
}
BENCHMARK(BM_SumOfSquares)->Unit(benchmark::kMillisecond);

template <typename T>
void BM_Norm(benchmark::State& state) {
  omp_set_num_threads(1);
  const NormShape shape = {
      .kind = static_cast<NormKind>(state.range(0)), .num_tokens = kTokens, .hidden = kHidden};
  Buffer<T> x(kTokens * kHidden), delta(kTokens * kHidden), h(kTokens * kHidden),
      y(kTokens * kHidden), weight(kHidden), bias(kHidden);
  Buffer stats(norm_stats_elems(shape));
  for (auto _ : state) {
    norm_forward<T>(shape, {.x = x.at(),
                            .delta = delta.at(),
                            .weight = weight.at(),
                            .bias = bias.at(),
                            .h = h.at(),
                            .y = y.at(),
                            .stats = stats.at()});
  }
  report_bytes(state, kTokens * kHidden * 4 * std::int64_t{sizeof(T)});
}
BENCHMARK(BM_Norm<float>)->ArgName("layer")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Norm<Bf16>)->ArgName("layer")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void BM_NormBackward(benchmark::State& state) {
  omp_set_num_threads(1);
  const NormShape shape = {.num_tokens = kTokens, .hidden = kHidden};
  Buffer dy(kTokens * kHidden), h(kTokens * kHidden), dh(kTokens * kHidden), weight(kHidden),
      dweight(kHidden), stats(kTokens), scratch(norm_backward_scratch_bytes(shape) / 4);
  for (auto _ : state) {
    norm_backward(shape, {.dy = dy.at(),
                          .h = h.at(),
                          .stats = stats.at(),
                          .weight = weight.at(),
                          .dh = dh.at(),
                          .dweight = dweight.at(),
                          .accumulate_dh = true,
                          .scratch = scratch.at()});
  }
  report_bytes(state, kTokens * kHidden * 16);
}
BENCHMARK(BM_NormBackward)->Unit(benchmark::kMillisecond);

template <typename T>
void BM_Swiglu(benchmark::State& state) {
  omp_set_num_threads(1);
  Buffer<T> gate_up(kTokens * 2 * kFfn), act(kTokens * kFfn), d_gate_up(kTokens * 2 * kFfn);
  const ActivationShape shape = {.num_tokens = kTokens, .ffn = kFfn};
  const bool backward = state.range(0) != 0;
  for (auto _ : state) {
    if (backward) {
      swiglu_backward(shape, gate_up.at(), act.at(), d_gate_up.at());
    } else {
      swiglu_forward(shape, gate_up.at(), act.at());
    }
  }
  report_bytes(state, kTokens * kFfn * std::int64_t{sizeof(T)} * (backward ? 5 : 3));
}
BENCHMARK(BM_Swiglu<float>)->ArgName("backward")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Swiglu<Bf16>)->ArgName("backward")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

template <typename T>
void BM_Gelu(benchmark::State& state) {
  omp_set_num_threads(1);
  Buffer<T> x(kTokens * kFfn), act(kTokens * kFfn), dx(kTokens * kFfn);
  const ActivationShape shape = {.num_tokens = kTokens, .ffn = kFfn};
  const bool backward = state.range(0) != 0;
  for (auto _ : state) {
    if (backward) {
      gelu_backward(shape, x.at(), act.at(), dx.at());
    } else {
      gelu_forward(shape, x.at(), act.at());
    }
  }
  report_bytes(state, kTokens * kFfn * std::int64_t{sizeof(T)} * (backward ? 3 : 2));
}
BENCHMARK(BM_Gelu<float>)->ArgName("backward")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Gelu<Bf16>)->ArgName("backward")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void BM_Dropout(benchmark::State& state) {
  omp_set_num_threads(1);
  Buffer x(kTokens * kHidden);
  const std::int64_t samples[] = {0, 1, 2, 3};
  const DropoutShape shape = {.num_tokens = kTokens, .seq_len = kTokens / 4, .channels = kHidden};
  for (auto _ : state) {
    dropout_forward(shape, {.key = 1, .p = 0.1F, .samples = samples}, x.at(), x.at());
  }
  report_bytes(state, kTokens * kHidden * 8);
}
BENCHMARK(BM_Dropout)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::kernels
