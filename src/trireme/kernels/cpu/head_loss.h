// Output head and cross-entropy, fused over chunks of tokens, so that there are never more logits
// than chunk * V. Letters: N tokens, C hidden, V vocab. The type T is float or Bf16, of
// logits too; sums and dw are fp32.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/head_products.h"
#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

struct HeadLossShape {
  std::int64_t num_tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  /// Tokens a chunk; part of the numerics (the weight gradient adds chunk after chunk).
  std::int64_t chunk_tokens = 256;
};

template <typename T = float>
struct HeadLossTrain {
  const T* x = nullptr;                  ///< [N,C] output of the final norm
  const T* w = nullptr;                  ///< [V,C]
  const std::int32_t* labels = nullptr;  ///< [N]; negative: ignored
  const float* inv_tokens = nullptr;     ///< one scalar: 1 / valid tokens of the global batch
  T* dx = nullptr;                       ///< [N,C]; must not overlap x
  float* dw = nullptr;                   ///< [V,C], or nullptr: not wanted (frozen)
  bool accumulate_dw = false;
  double* loss_sum = nullptr;  ///< += sum of token losses in nats, not scaled by inv_tokens
  void* scratch = nullptr;     ///< scratch_bytes(), alignment 64
};

template <typename T = float>
struct HeadLossEvaluate {
  const T* x = nullptr;
  const T* w = nullptr;
  const std::int32_t* labels = nullptr;
  double* loss_sum = nullptr;
  void* scratch = nullptr;
};

/// Owns its matrix products: create it at load in the rank's thread, as a Matmul. An ignored label
/// adds nothing to the loss and its gradient is exactly 0. A NaN or +infinity among the logits of a
/// counted token makes the loss NaN. Token losses are added in ascending order.
template <typename T = float>
class HeadLoss {
 public:
  /// Throws UsageError unless all sizes are >= 1. `training` false leaves the gradients out.
  HeadLoss(const HeadLossShape& shape, bool training);

  [[nodiscard]] std::int64_t scratch_bytes() const;

  /// Loss and both gradients, the gradients scaled by *inv_tokens. InternalError when a label is
  /// >= V or the object was made without `training`. 6*N*C*V FLOPs.
  void train(const HeadLossTrain<T>& args, const IsaKernels& isa = isa_kernels());

  /// Adds the same loss bits as train(). 2*N*C*V FLOPs.
  void evaluate(const HeadLossEvaluate<T>& args, const IsaKernels& isa = isa_kernels());

 private:
  HeadLossShape shape_;
  HeadProducts products_;
};

}  // namespace trireme::kernels
