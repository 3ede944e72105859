// RMSNorm and LayerNorm over the channels, with the residual addition fused in.
// Letters: N tokens, C hidden. RMSNorm: Zhang, Sennrich 2019 (arXiv:1910.07467), eq. 4; LayerNorm:
// Ba, Kiros, Hinton 2016 (arXiv:1607.06450), eq. 4. T is float or Bf16; sums are fp32.
#pragma once

#include <cstdint>
#include <type_traits>

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

template <typename T = float>
struct NormForward {
  const T* x = nullptr;       ///< [N,C]
  const T* delta = nullptr;   ///< [N,C], or nullptr: h is x
  const T* weight = nullptr;  ///< [C]
  const T* bias = nullptr;    ///< [C], kLayer only
  T* h = nullptr;             ///< [N,C] = x + delta, written only with delta; may be x or delta
  T* y = nullptr;             ///< [N,C]
  float* stats = nullptr;     ///< norm_stats_elems
};

/// Row-wise: a row's bits depend on nothing but the row.
template <typename T = float>
void norm_forward(const NormShape& shape, const std::type_identity_t<NormForward<T>>& args,
                  const IsaKernels& isa = isa_kernels());

/// Recomputes y (of norm_forward's h and stats) bit for bit. `bias` is read for kLayer only.
template <typename T = float>
struct NormFromStats {
  const T* h = nullptr;
  const float* stats = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
};
template <typename T = float>
void norm_from_stats(const NormShape& shape, const std::type_identity_t<NormFromStats<T>>& args,
                     const IsaKernels& isa = isa_kernels());

template <typename T = float>
struct NormBackward {
  const T* dy = nullptr;  ///< [N,C]
  const T* h = nullptr;   ///< [N,C]
  const float* stats = nullptr;
  const T* weight = nullptr;
  T* dh = nullptr;             ///< [N,C]; may be dy when not accumulated into
  float* dweight = nullptr;    ///< [C], or nullptr: not wanted (frozen); then dbias too
  float* dbias = nullptr;      ///< [C], kLayer only
  bool accumulate_dh = false;  ///< dh += …, else dh = …
  bool accumulate_dw = false;  ///< dweight and dbias += …, else = …
  void* scratch = nullptr;     ///< norm_backward_scratch_bytes, alignment 64
};

/// Partial weight gradients of one fixed block of tokens each; independent of the thread count.
[[nodiscard]] std::int64_t norm_backward_scratch_bytes(const NormShape& shape);
template <typename T = float>
void norm_backward(const NormShape& shape, const std::type_identity_t<NormBackward<T>>& args,
                   const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
