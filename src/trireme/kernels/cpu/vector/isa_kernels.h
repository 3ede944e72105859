// The inner, single-thread kernels of one instruction set: what kernels.inc compiles to. Private to
// this layer. The outer kernels cut the work, these do one piece; ranges are [begin, end).
#pragma once

#include <cstdint>

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
  std::int64_t head = 0;         ///< query head (forward) or kv head (backward)
  std::int64_t query_begin = 0;  ///< forward only; a multiple of kAttentionBlock
  float* scratch = nullptr;      ///< of the calling thread
};

/// Queries and keys a tile; also the run of queries that one dropout group covers.
constexpr std::int64_t kAttentionBlock = 64;

/// Where a token's loss and, with `grad_scale`, its gradient come from.
struct TokenLoss {
  float* logits = nullptr;  ///< [V]; overwritten with the gradient when grad_scale is given
  std::int64_t vocab = 0;
  std::int64_t label = 0;
  const float* grad_scale = nullptr;
};

struct IsaKernels {
  const char* name;

  void (*add)(float* out, const float* x, std::int64_t count);
  void (*reduce_ranks)(float* out, const float* const* inputs, int num_ranks, Range range);
  void (*adamw_step)(const AdamwState& state, const AdamwScalars& scalars);
  double (*sum_of_squares)(const float* x, std::int64_t count);

  void (*norm_forward)(const NormShape& shape, const NormForward& args, Range tokens);
  void (*norm_from_stats)(const NormShape& shape, const NormFromStats& args, Range tokens);
  /// dweight_partial and dbias_partial [C] are overwritten with the sums over `tokens`.
  void (*norm_backward)(const NormShape& shape, const NormBackward& args, Range tokens,
                        float* dweight_partial, float* dbias_partial);

  void (*split_heads_forward)(const HeadsShape& shape, const SplitHeadsForward& args, Range tokens);
  void (*split_heads_backward)(const HeadsShape& shape, const SplitHeadsBackward& args,
                               Range tokens, float* dq_norm_partial, float* dk_norm_partial);

  void (*swiglu_forward)(std::int64_t ffn, const float* gate_up, float* act, Range tokens);
  void (*swiglu_backward)(std::int64_t ffn, const float* gate_up, const float* d_act,
                          float* d_gate_up, Range tokens);
  void (*gelu_forward)(const float* x, float* act, Range elems);
  void (*gelu_backward)(const float* x, const float* d_act, float* dx, Range elems);
  void (*dropout)(const DropoutShape& shape, const DropoutSite& site, const float* x, float* out,
                  Range tokens);

  void (*attention_forward)(const AttentionShape& shape, const AttentionForward& args,
                            const AttentionItem& item);
  void (*attention_backward)(const AttentionShape& shape, const AttentionBackward& args,
                             const AttentionItem& item);

  double (*token_loss)(const TokenLoss& args);
  /// The largest of x; NaN when there is one. count >= 1.
  float (*row_max)(const float* x, std::int64_t count);
  /// Sum of exp(x - shift), in fp64 from fp32 exponentials.
  double (*exp_sum)(const float* x, std::int64_t count, float shift);
  /// x = exp(x - shift) * scale.
  void (*scaled_exp)(float* x, std::int64_t count, float shift, float scale);
};

extern const IsaKernels kSse2Kernels;
extern const IsaKernels kAvx2Kernels;
extern const IsaKernels kAvx512Kernels;

/// Floats of scratch that one thread needs for one item.
[[nodiscard]] constexpr std::int64_t attention_forward_scratch_elems(std::int64_t head_dim) {
  return kAttentionBlock * (2 * head_dim + kAttentionBlock + 4);
}
[[nodiscard]] constexpr std::int64_t attention_backward_scratch_elems(std::int64_t head_dim) {
  return kAttentionBlock * (3 * head_dim + 3 * kAttentionBlock + 4);
}

}  // namespace trireme::kernels
