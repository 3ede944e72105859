#include "trireme/kernels/cpu/optimizer.h"

#include <array>

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

void adamw_step(const AdamwState& state, const AdamwScalars& scalars, const IsaKernels& isa) {
  parallel_ranges(state.count, kElementwiseGrain, [&](Range range) {
    isa.adamw_step({.param = state.param + range.begin,
                    .m = state.m + range.begin,
                    .v = state.v + range.begin,
                    .grad = state.grad + range.begin,
                    .rounded = state.rounded == nullptr ? nullptr : state.rounded + range.begin,
                    .count = range.end - range.begin},
                   scalars);
  });
}

double sum_of_squares(const float* x, std::int64_t count, const IsaKernels& isa) {
  constexpr std::int64_t kBlock = 4096, kBlocksAtOnce = 1024;
  std::array<double, kBlocksAtOnce> partial;  // on the stack: kernels do not allocate
  const std::int64_t num_blocks = div_ceil(count, kBlock);
  double total = 0;
  for (std::int64_t first = 0; first < num_blocks; first += kBlocksAtOnce) {
    const std::int64_t num = std::min(kBlocksAtOnce, num_blocks - first);
    parallel_ranges(num, kElementwiseGrain / kBlock, [&](Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t begin = (first + i) * kBlock;
        partial[static_cast<std::size_t>(i)] =
            isa.sum_of_squares(x + begin, std::min(kBlock, count - begin));
      }
    });
    for (std::int64_t i = 0; i < num; ++i) total += partial[static_cast<std::size_t>(i)];
  }
  return total;
}

}  // namespace trireme::kernels
