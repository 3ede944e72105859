// Causal attention of GPT-2 124M: 4 x 12 heads x 1024 x 64, causal FLOPs.
#include "trireme/kernels/cpu/attention.h"

#include "trireme/kernels/cpu/bench_support.h"

namespace trireme::kernels {
namespace {

constexpr AttentionShape kGpt2 = {.batch = 4,
                                  .seq_len = 1024,
                                  .heads = 12,
                                  .kv_heads = 12,
                                  .head_dim = 64,
                                  .cache_rows = 1024,
                                  .kv_len = 1024};

template <typename T>
struct AttentionBuffers {
  AttentionBuffers() {
    std::int64_t samples[] = {0, 1, 2, 3};
    std::copy(samples, samples + 4, sample_index);
  }
  static constexpr std::int64_t kElems = 4 * 12 * 1024 * 64;
  Buffer<T> q{kElems}, k{kElems}, v{kElems}, o{kElems}, d_o{kElems}, dq{kElems}, dk{kElems},
      dv{kElems};
  Buffer<float> lse{4 * 12 * 1024};
  std::int64_t sample_index[4];
};

template <typename T>
void run_forward(const AttentionBuffers<T>& b, const DropoutSite& dropout,
                 const Buffer<float>& scratch) {
  attention_forward<T>(kGpt2, {.q = b.q.at(),
                               .k = b.k.at(),
                               .v = b.v.at(),
                               .o = b.o.at(),
                               .lse = b.lse.at(),
                               .dropout = dropout,
                               .scratch = scratch.at()});
}

template <typename T>
void BM_AttentionForward(benchmark::State& state) {
  AttentionBuffers<T> b;
  const auto threads = static_cast<int>(state.range(0));
  omp_set_num_threads(threads);
  Buffer scratch(attention_forward_scratch_bytes<T>(kGpt2, threads) / 4);
  const DropoutSite dropout = {
      .key = 1, .p = state.range(1) != 0 ? 0.1F : 0.0F, .samples = b.sample_index};
  for (auto _ : state) {
    run_forward(b, dropout, scratch);
  }
  report_flops(state, attention_forward_flops(kGpt2));
}
BENCHMARK(BM_AttentionForward<float>)
    ->ArgNames({"threads", "dropout"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({1, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_AttentionForward<Bf16>)
    ->ArgNames({"threads", "dropout"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

template <typename T>
void BM_AttentionBackward(benchmark::State& state) {
  AttentionBuffers<T> b;
  const auto threads = static_cast<int>(state.range(0));
  omp_set_num_threads(threads);
  Buffer scratch(attention_backward_scratch_bytes<T>(kGpt2, threads) / 4);
  const DropoutSite dropout = {
      .key = 1, .p = state.range(1) != 0 ? 0.1F : 0.0F, .samples = b.sample_index};
  run_forward(b, dropout, scratch);
  for (auto _ : state) {
    attention_backward<T>(kGpt2, {.q = b.q.at(),
                                  .k = b.k.at(),
                                  .v = b.v.at(),
                                  .o = b.o.at(),
                                  .lse = b.lse.at(),
                                  .d_o = b.d_o.at(),
                                  .dq = b.dq.at(),
                                  .dk = b.dk.at(),
                                  .dv = b.dv.at(),
                                  .dropout = dropout,
                                  .scratch = scratch.at()});
  }
  report_flops(state, 2.5 * attention_forward_flops(kGpt2));
}
BENCHMARK(BM_AttentionBackward<float>)
    ->ArgNames({"threads", "dropout"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({1, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_AttentionBackward<Bf16>)
    ->ArgNames({"threads", "dropout"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::kernels
