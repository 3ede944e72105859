// The inner, single-thread kernels of one instruction set: what kernels.inc compiles to. Private to
// this layer. The outer kernels cut the work, these do one piece; ranges are [begin, end).
#pragma once

#include <cstdint>
#include <type_traits>

#include "trireme/base/bf16.h"
#include "trireme/kernels/cpu/activation.h"
#include "trireme/kernels/cpu/attention.h"
#include "trireme/kernels/cpu/dropout.h"
#include "trireme/kernels/cpu/norm.h"
#include "trireme/kernels/cpu/optimizer.h"
#include "trireme/kernels/cpu/rope.h"

namespace trireme::kernels {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// One block of queries of one head (forward), or one kv head (backward).
struct AttentionItem {
  std::int64_t sample = 0;
  std::int64_t head = 0;     ///< query head (forward) or kv head (backward)
  std::int64_t block = 0;    ///< of queries; forward only
  float* scratch = nullptr;  ///< of the calling thread
};

/// Queries and keys a tile; also the run of positions that one dropout group covers.
constexpr std::int64_t kAttentionBlock = 64;

/// Blocks of queries of one head; none reaches over two pieces.
[[nodiscard]] inline std::int64_t attention_num_blocks(const AttentionShape& shape) {
  if (!shape.queries.is_cut()) return (shape.seq_len + kAttentionBlock - 1) / kAttentionBlock;
  return (shape.queries.piece_tokens + kAttentionBlock - 1) / kAttentionBlock * 2;
}

/// Where a token's loss and, with `grad_scale`, its gradient come from.
template <typename T>
struct TokenLoss {
  T* logits = nullptr;  ///< [V]; overwritten with the gradient when grad_scale is given
  std::int64_t vocab = 0;
  std::int64_t label = 0;
  const float* grad_scale = nullptr;
};

/// c[rows, columns] = (accumulate: c +) a * b (+ bias [columns]), written to `narrow` if given.
struct GemmBlock {
  const float* a = nullptr;  ///< [rows, depth], or transposed [depth, rows]
  const float* b = nullptr;  ///< panels [columns / gemm_columns][depth][gemm_columns]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool is_a_transposed = false;
  bool accumulate = false;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  const float* bias = nullptr;
  Bf16* narrow = nullptr;
  std::int64_t narrow_stride = 0;
};

/// Kernels of parameters and activations of type T, float or Bf16; arithmetic is fp32.
template <typename T>
struct TypedKernels {
  void (*add)(T* out, const T* x, std::int64_t count);
  void (*reduce_ranks)(T* out, const T* const* inputs, int num_ranks, Range range);

  void (*norm_forward)(const NormShape& shape, const NormForward<T>& args, Range tokens);
  void (*norm_from_stats)(const NormShape& shape, const NormFromStats<T>& args, Range tokens);
  /// dweight_partial and dbias_partial [C] are overwritten with the sums over `tokens`.
  void (*norm_backward)(const NormShape& shape, const NormBackward<T>& args, Range tokens,
                        float* dweight_partial, float* dbias_partial);

  void (*split_heads_forward)(const HeadsShape& shape, const SplitHeadsForward<T>& args,
                              Range tokens);
  void (*split_heads_backward)(const HeadsShape& shape, const SplitHeadsBackward<T>& args,
                               Range tokens, float* dq_norm_partial, float* dk_norm_partial);

  void (*swiglu_forward)(std::int64_t ffn, const T* gate_up, T* act, Range tokens);
  void (*swiglu_backward)(std::int64_t ffn, const T* gate_up, const T* d_act, T* d_gate_up,
                          Range tokens);
  void (*gelu_forward)(const T* x, T* act, Range elems);
  void (*gelu_backward)(const T* x, const T* d_act, T* dx, Range elems);
  void (*dropout)(const DropoutShape& shape, const DropoutSite& site, const T* x, T* out,
                  Range tokens);

  void (*attention_forward)(const AttentionShape& shape, const AttentionForward<T>& args,
                            const AttentionItem& item);
  void (*attention_backward)(const AttentionShape& shape, const AttentionBackward<T>& args,
                             const AttentionItem& item);

  double (*token_loss)(const TokenLoss<T>& args);
  /// The largest of x; NaN when there is one. count >= 1.
  float (*row_max)(const T* x, std::int64_t count);
  /// Sum of exp(x - shift), in fp64 from fp32 exponentials.
  double (*exp_sum)(const T* x, std::int64_t count, float shift);
  /// x = exp(x - shift) * scale.
  void (*scaled_exp)(T* x, std::int64_t count, float shift, float scale);

  /// to[rows, columns] = the same of `from`, whose rows lie from_stride apart.
  void (*widen_rows)(const T* from, std::int64_t from_stride, std::int64_t rows,
                     std::int64_t columns, float* to);
  /// One panel of GemmBlock::b from [depth, columns] or, transposed, [columns, depth].
  void (*pack_panel)(const T* b, std::int64_t stride, std::int64_t depth, std::int64_t columns,
                     float* panel);
  void (*pack_panel_transposed)(const T* b, std::int64_t stride, std::int64_t depth,
                                std::int64_t columns, float* panel);
};

struct IsaKernels {
  const char* name;
  TypedKernels<float> f32;
  TypedKernels<Bf16> bf16;

  void (*adamw_step)(const AdamwState& state, const AdamwScalars& scalars);
  double (*sum_of_squares)(const float* x, std::int64_t count);
  void (*gemm_block)(const GemmBlock& block);
  std::int64_t gemm_columns;  ///< of a panel

  template <typename T>
  [[nodiscard]] const TypedKernels<T>& typed() const {
    if constexpr (std::is_same_v<T, Bf16>) {
      return bf16;
    } else {
      return f32;
    }
  }
};

extern const IsaKernels kSse2Kernels;
extern const IsaKernels kAvx2Kernels;
extern const IsaKernels kAvx512Kernels;

/// Floats of scratch that one thread needs for one item.
[[nodiscard]] constexpr std::int64_t attention_forward_scratch_elems(std::int64_t head_dim,
                                                                     bool is_bf16) {
  const std::int64_t copies = is_bf16 ? 2 * head_dim : 0;
  return kAttentionBlock * (2 * head_dim + kAttentionBlock + 4 + copies);
}
[[nodiscard]] constexpr std::int64_t attention_backward_scratch_elems(std::int64_t head_dim,
                                                                      std::int64_t num_keys,
                                                                      bool is_bf16) {
  const std::int64_t copies = is_bf16 ? 4 * head_dim : 0,
                     sums = is_bf16 ? 2 * num_keys * head_dim : 0;
  return kAttentionBlock * (3 * head_dim + 3 * kAttentionBlock + 4 + copies) + sums;
}

}  // namespace trireme::kernels
