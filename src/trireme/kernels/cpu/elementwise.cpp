#include "trireme/kernels/cpu/elementwise.h"

#include <cstring>

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

void add(float* out, const float* x, std::int64_t count, const IsaKernels& isa) {
  parallel_ranges(count, kElementwiseGrain, [=, &isa](Range range) {
    isa.add(out + range.begin, x + range.begin, range.end - range.begin);
  });
}

void fill_zero(float* out, std::int64_t count) {
  parallel_ranges(count, kElementwiseGrain, [=](Range range) {
    std::memset(out + range.begin, 0,
                static_cast<std::size_t>(range.end - range.begin) * sizeof(float));
  });
}

void reduce_ranks(float* out, const float* const* inputs, int num_ranks, std::int64_t count,
                  const IsaKernels& isa) {
  TRI_CHECK(num_ranks >= 1);
  parallel_ranges(count, kElementwiseGrain,
                  [=, &isa](Range range) { isa.reduce_ranks(out, inputs, num_ranks, range); });
}

void reduce_ranks(double* out, const double* const* inputs, int num_ranks, std::int64_t count) {
  TRI_CHECK(num_ranks >= 1);
  parallel_ranges(count, kElementwiseGrain, [=](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      double sum = inputs[0][i];
      for (int rank = 1; rank < num_ranks; ++rank) sum += inputs[rank][i];
      out[i] = sum;
    }
  });
}

}  // namespace trireme::kernels
