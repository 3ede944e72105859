// Model FLOPs: what the mathematics of one token needs, independent of recomputation and layout.
#pragma once

#include <cstdint>

#include "trireme/model/spec.h"

namespace trireme {

/// Forward and backward FLOPs of one token.
struct FlopsPerToken {
  std::int64_t matmul = 0;          ///< 6 * (all parameters - input embedding and position tables)
  std::int64_t attention_full = 0;  ///< 12 * L * H * D * S, full square (torchtitan's "mfu")
  std::int64_t attention_causal = 0;  ///< half of it

  bool operator==(const FlopsPerToken&) const = default;
  [[nodiscard]] std::int64_t full() const { return matmul + attention_full; }
  [[nodiscard]] std::int64_t causal() const { return matmul + attention_causal; }
};

/// A tied table counts once, as the head. `spec` must be resolved. UsageError if `seq` is so long
/// that the count leaves 64 bits. torchtitan models/utils.py and Korthikanti et al. 2022
/// (arXiv:2205.05198), appendix A.
[[nodiscard]] FlopsPerToken flops_per_token(const ModelSpec& spec, std::int64_t seq);

/// Activation bytes that one GPT layer keeps for backward without recomputation, with 16-bit values
/// and 8-bit masks: s*b*h*(34 + 5*a*s/h) (Korthikanti et al. 2022, arXiv:2205.05198, equation 1).
[[nodiscard]] std::int64_t gpt_layer_activation_bytes(std::int64_t seq, std::int64_t micro_batch,
                                                      std::int64_t hidden, std::int64_t heads);

}  // namespace trireme
