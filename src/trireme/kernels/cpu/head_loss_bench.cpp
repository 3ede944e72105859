// Output head and cross-entropy with GPT-2's vocabulary.
#include "trireme/kernels/cpu/head_loss.h"

#include "trireme/kernels/cpu/bench_support.h"

namespace trireme::kernels {
namespace {

void BM_HeadLossTrain(benchmark::State& state) {
  omp_set_num_threads(static_cast<int>(state.range(0)));
  const HeadLossShape shape = {.num_tokens = 512, .hidden = 768, .vocab = 50257};
  HeadLoss head(shape, true);
  Buffer x(512 * 768), w(50257 * 768), dx(512 * 768), dw(50257 * 768),
      scratch(head.scratch_bytes() / 4 + 16);
  const std::vector<std::int32_t> labels(512, 17);
  const float inv_tokens = 1.0F / 512;
  double loss = 0;
  for (auto _ : state) {
    head.train({.x = x.at(),
                .w = w.at(),
                .labels = labels.data(),
                .inv_tokens = &inv_tokens,
                .dx = dx.at(),
                .dw = dw.at(),
                .loss_sum = &loss,
                .scratch = scratch.at()});
  }
  report_flops(state, 6.0 * 512 * 768 * 50257);
}
BENCHMARK(BM_HeadLossTrain)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::kernels
