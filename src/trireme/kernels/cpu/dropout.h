// Dropout whose mask is a pure function of (key, global sample, position, channel), so that every
// layout and every recomputation draws the same one. Letters: N tokens of the run, B samples of the
// micro-batch, T seq_len, C channels. The type T is float or Bf16.
#pragma once

#include <cstdint>

#include "trireme/base/token_pieces.h"
#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

/// One place where dropout is applied, in one step.
struct DropoutSite {
  std::uint64_t key = 0;                  ///< already mixes seed, step, layer and site
  float p = 0;                            ///< probability of a zero, in [0, 1); 0: no dropout
  const std::int64_t* samples = nullptr;  ///< [B] global index of each sample, < 2^48
};

/// x is [N,C], a run of the B*T tokens of the micro-batch, which need not begin or end with a
/// sample: row n is token t = (first_token + n) % T of sample (first_token + n) / T, at position(t)
/// of `pieces`.
struct DropoutShape {
  std::int64_t num_tokens = 0;
  std::int64_t seq_len = 0;
  std::int64_t channels = 0;
  std::int64_t first_token = 0;
  TokenPieces pieces = {};
};

/// out = mask * x / (1 - p); `out` may be `x`. The mask keeps where uniform >= p: Philox4x32-10
/// with counter {16*(c/64) + c%16, position, sample} and word (c/16)%4, the same for all
/// instruction sets.
template <typename T>
void dropout_forward(const DropoutShape& shape, const DropoutSite& site, const T* x, T* out,
                     const IsaKernels& isa = isa_kernels());

/// The same function, of the gradient: dx = mask * dy / (1 - p).
template <typename T>
void dropout_backward(const DropoutShape& shape, const DropoutSite& site, const T* dy, T* dx,
                      const IsaKernels& isa = isa_kernels()) {
  dropout_forward(shape, site, dy, dx, isa);
}

}  // namespace trireme::kernels
