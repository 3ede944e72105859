#include "trireme/kernels/cpu/elementwise.h"

#include <cstring>

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

template <typename T>
void add(T* out, const T* x, std::int64_t count, const IsaKernels& isa) {
  parallel_ranges(count, kElementwiseGrain, [=, &isa](Range range) {
    isa.typed<T>().add(out + range.begin, x + range.begin, range.end - range.begin);
  });
}

void fill_zero(float* out, std::int64_t count) {
  parallel_ranges(count, kElementwiseGrain, [=](Range range) {
    std::memset(out + range.begin, 0,
                static_cast<std::size_t>(range.end - range.begin) * sizeof(float));
  });
}

template <typename T>
void reduce_ranks(T* out, const T* const* inputs, int num_ranks, std::int64_t count,
                  const IsaKernels& isa) {
  TRI_CHECK(num_ranks >= 1);
  parallel_ranges(count, kElementwiseGrain, [=, &isa](Range range) {
    isa.typed<T>().reduce_ranks(out, inputs, num_ranks, range);
  });
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

template void add(float*, const float*, std::int64_t, const IsaKernels&);
template void reduce_ranks(float*, const float* const*, int, std::int64_t, const IsaKernels&);
template void add(Bf16*, const Bf16*, std::int64_t, const IsaKernels&);
template void reduce_ranks(Bf16*, const Bf16* const*, int, std::int64_t, const IsaKernels&);

}  // namespace trireme::kernels
