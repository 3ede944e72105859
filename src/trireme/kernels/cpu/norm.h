// RMSNorm and LayerNorm over the channels, with the residual addition fused in.
// Letters: N tokens, C hidden. RMSNorm: Zhang, Sennrich 2019 (arXiv:1910.07467), eq. 4; LayerNorm:
// Ba, Kiros, Hinton 2016 (arXiv:1607.06450), eq. 4.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

enum class NormKind : std::uint8_t {
  kRms,    ///< y = weight * h * rstd, rstd = 1/sqrt(mean(h^2) + eps)
  kLayer,  ///< y = weight * (h - mean) * rstd + bias
};

struct NormShape {
  NormKind kind = NormKind::kRms;
  std::int64_t num_tokens = 0;
  std::int64_t hidden = 0;
  float eps = 1e-5F;
};

/// Floats of `stats`: rstd[N] for kRms; mean[N] then rstd[N] for kLayer.
[[nodiscard]] std::int64_t norm_stats_elems(const NormShape& shape);

struct NormForward {
  const float* x = nullptr;       ///< [N,C]
  const float* delta = nullptr;   ///< [N,C], or nullptr: h is x
  const float* weight = nullptr;  ///< [C]
  const float* bias = nullptr;    ///< [C], kLayer only
  float* h = nullptr;             ///< [N,C] = x + delta, written only with delta; may be x or delta
  float* y = nullptr;             ///< [N,C]
  float* stats = nullptr;         ///< norm_stats_elems
};

/// Row-wise: a row's bits depend on nothing but the row.
void norm_forward(const NormShape& shape, const NormForward& args,
                  const IsaKernels& isa = isa_kernels());

/// Recomputes y (of norm_forward's h and stats) bit for bit. `bias` is read for kLayer only.
struct NormFromStats {
  const float* h = nullptr;
  const float* stats = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
};
void norm_from_stats(const NormShape& shape, const NormFromStats& args,
                     const IsaKernels& isa = isa_kernels());

struct NormBackward {
  const float* dy = nullptr;  ///< [N,C]
  const float* h = nullptr;   ///< [N,C]
  const float* stats = nullptr;
  const float* weight = nullptr;
  float* dh = nullptr;         ///< [N,C]; may be dy when not accumulated into
  float* dweight = nullptr;    ///< [C], or nullptr: not wanted (frozen); then dbias too
  float* dbias = nullptr;      ///< [C], kLayer only
  bool accumulate_dh = false;  ///< dh += …, else dh = …
  bool accumulate_dw = false;  ///< dweight and dbias += …, else = …
  void* scratch = nullptr;     ///< norm_backward_scratch_bytes, alignment 64
};

/// Partial weight gradients of one fixed block of tokens each; independent of the thread count.
[[nodiscard]] std::int64_t norm_backward_scratch_bytes(const NormShape& shape);
void norm_backward(const NormShape& shape, const NormBackward& args,
                   const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
