// Additions and the reduction over ranks. Elementwise: bits depend neither on cuts nor on threads.
// T is float or Bf16.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

/// out += x. The arrays must not overlap, or be the same.
template <typename T>
void add(T* out, const T* x, std::int64_t count, const IsaKernels& isa = isa_kernels());

void fill_zero(float* out, std::int64_t count);

/// out = ((in[0] + in[1]) + in[2]) + …, in rank order; the order is the numerics. Sums of bf16
/// are fp32 and rounded once. num_ranks >= 1; `out` may be one of the inputs.
template <typename T>
void reduce_ranks(T* out, const T* const* inputs, int num_ranks, std::int64_t count,
                  const IsaKernels& isa = isa_kernels());
void reduce_ranks(double* out, const double* const* inputs, int num_ranks, std::int64_t count);

}  // namespace trireme::kernels
