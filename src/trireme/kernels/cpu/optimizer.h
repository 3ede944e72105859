// AdamW and the sum of squares of the gradient norm.
#pragma once

#include <cstdint>

#include "trireme/base/bf16.h"
#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

/// Arrays of `count` elements; grad is only read.
struct AdamwState {
  float* param = nullptr;  ///< with `rounded`: the fp32 master
  float* m = nullptr;
  float* v = nullptr;
  const float* grad = nullptr;
  Bf16* rounded = nullptr;  ///< receives param in bf16; or nullptr
  std::int64_t count = 0;
};

struct AdamwScalars {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double bias_correction1 = 1;  ///< 1 - beta1^step
  double bias_correction2 = 1;  ///< 1 - beta2^step
  float grad_scale = 1;         ///< clip coefficient; multiplies the gradient first
};

/// Loshchilov, Hutter 2019 (arXiv:1711.05101), algorithm 2, with the decay first:
/// param -= lr*wd*param; m, v updated; param -= lr * (m/bc1) / (sqrt(v/bc2) + eps).
/// Elementwise: the bits do not depend on where a range is cut, nor on threads.
void adamw_step(const AdamwState& state, const AdamwScalars& scalars,
                const IsaKernels& isa = isa_kernels());

/// Sum of x^2 in fp64: blocks of 4096 elements from the start of x, added in ascending order;
/// independent of threads. NaN and infinity propagate.
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t count,
                                    const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
