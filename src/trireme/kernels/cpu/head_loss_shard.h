// Output head and cross-entropy over a vocabulary cut into shards, one a rank (Shoeybi et al. 2019,
// arXiv:1909.08053, section 3): phases on one chunk of tokens, between which the caller reduces two
// small arrays over the ranks. Letters: N tokens of the chunk, C hidden, V rows of this rank.
// The type T is float or Bf16; row_max, sums and dw are fp32.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/head_products.h"
#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

template <typename T = float>
struct HeadLossShardLogits {
  std::int64_t num_tokens = 0;  ///< one of the two chunk sizes
  const T* x = nullptr;         ///< [N,C] output of the final norm
  const T* w = nullptr;         ///< [V,C]
  T* logits = nullptr;          ///< [N,V] out
  float* row_max = nullptr;     ///< [N] out; reduce it by maximum over the ranks
  void* scratch = nullptr;      ///< scratch_bytes(), alignment 64
};

/// Labels number the rows of the whole vocabulary: this rank's are [first_row, first_row + V).
template <typename T = float>
struct HeadLossShardSums {
  std::int64_t num_tokens = 0;
  const T* logits = nullptr;             ///< [N,V]
  const std::int32_t* labels = nullptr;  ///< [N]; negative: ignored
  std::int64_t first_row = 0;
  const float* row_max = nullptr;  ///< [N], of all ranks
  float* sums = nullptr;           ///< [2,N] out; add it over the ranks
};

template <typename T = float>
struct HeadLossShardGradient {
  std::int64_t num_tokens = 0;
  const T* x = nullptr;                  ///< [N,C]
  const T* w = nullptr;                  ///< [V,C]
  const std::int32_t* labels = nullptr;  ///< [N]
  std::int64_t first_row = 0;
  const float* row_max = nullptr;     ///< [N], of all ranks
  const float* sums = nullptr;        ///< [2,N], of all ranks
  T* logits = nullptr;                ///< [N,V]; overwritten with their gradient
  const float* inv_tokens = nullptr;  ///< one scalar: 1 / valid tokens of the global batch
  T* dx = nullptr;                    ///< [N,C] out: this rank's part; must not overlap x
  float* dw = nullptr;                ///< [V,C], or nullptr: not wanted (frozen)
  bool accumulate_dw = false;
  double* loss_sum = nullptr;  ///< += sum of token losses in nats, not scaled by inv_tokens
  void* scratch = nullptr;     ///< scratch_bytes(), alignment 64
};

struct HeadLossShardLoss {
  std::int64_t num_tokens = 0;
  const std::int32_t* labels = nullptr;  ///< [N]
  const float* sums = nullptr;           ///< [2,N], of all ranks
  double* loss_sum = nullptr;            ///< += the same bits as gradient() adds
};

/// A chunk goes through logits(), sums(), then gradient() (training) or loss() (evaluation). Owns
/// its matrix products: create it at load in the rank's thread, as a Matmul. An ignored label adds
/// nothing to the loss and its gradient is exactly 0. A NaN or +infinity among the logits of a
/// counted token, on any rank, makes the loss NaN on all of them, also where the maximum over the
/// ranks drops a NaN. The caller checks that labels are below the size of the whole vocabulary:
/// one that no rank has would count as a token whose logit is the row's maximum.
template <typename T = float>
class HeadLossShard {
 public:
  /// Throws UsageError unless all sizes are >= 1 (last_chunk_tokens: >= 0). The type is T's,
  /// whatever the shape says. `training` false leaves the gradients out.
  HeadLossShard(const HeadProductsShape& shape, bool training);

  /// Of the matrix products; the arrays between the phases are the caller's.
  [[nodiscard]] std::int64_t scratch_bytes() const { return products_.scratch_bytes(); }

  /// logits = x * w^T, and the maximum of each row, NaN when there is one. 2*N*C*V FLOPs.
  /// InternalError unless num_tokens is one of the two chunk sizes.
  void logits(const HeadLossShardLogits<T>& args, const IsaKernels& isa = isa_kernels());

  /// sums[0][n] = sum over this rank's columns of exp(logit - row_max[n]); sums[1][n] = logit of
  /// the label - row_max[n] on the rank that has the label's row, else 0. Both 0 for an ignored
  /// label.
  void sums(const HeadLossShardSums<T>& args, const IsaKernels& isa = isa_kernels()) const;

  /// logits become (softmax - onehot) * *inv_tokens; dx = logits * w, whose sum over the ranks is
  /// the gradient; dw = (accumulate: +=) logits^T * x. Adds log(sums[0][n]) - sums[1][n] to the
  /// loss, in fp64 and ascending n. 4*N*C*V FLOPs. InternalError when the object was made without
  /// `training`, or num_tokens is no chunk size.
  void gradient(const HeadLossShardGradient<T>& args, const IsaKernels& isa = isa_kernels());

  /// The loss of gradient() alone.
  static void loss(const HeadLossShardLoss& args);

 private:
  std::int64_t vocab_;  ///< rows of this rank
  HeadProducts products_;
};

}  // namespace trireme::kernels
