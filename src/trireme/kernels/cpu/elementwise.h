// Additions and the reduction over ranks. Elementwise: bits depend neither on cuts nor on threads.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

/// out += x. The arrays must not overlap, or be the same.
void add(float* out, const float* x, std::int64_t count, const IsaKernels& isa = isa_kernels());

void fill_zero(float* out, std::int64_t count);

/// out = ((in[0] + in[1]) + in[2]) + …, in rank order; the order is the numerics. num_ranks >= 1;
/// `out` may be one of the inputs.
void reduce_ranks(float* out, const float* const* inputs, int num_ranks, std::int64_t count,
                  const IsaKernels& isa = isa_kernels());
void reduce_ranks(double* out, const double* const* inputs, int num_ranks, std::int64_t count);

}  // namespace trireme::kernels
