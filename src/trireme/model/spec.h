// What a model is: its family and its sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

enum class Family : std::uint8_t {
  kLlama,  ///< RMSNorm, RoPE, SwiGLU, grouped-query attention; also Qwen2 (qkv_bias), Qwen3
           ///< (qk_norm)
  kGpt2,   ///< LayerNorm, learned positions, GELU (tanh), biases everywhere, tied head, dropout
};

[[nodiscard]] std::string_view family_name(Family family);

/// Sizes of one model. Keys of `[model]` and of models/*.toml bear the same names.
struct ModelSpec {
  Family family = Family::kLlama;
  std::int64_t layers = 0;    ///< L
  std::int64_t hidden = 0;    ///< C, the width of the residual stream
  std::int64_t heads = 0;     ///< H, query heads
  std::int64_t kv_heads = 0;  ///< G, key/value heads; divides heads; 0 = heads
  std::int64_t head_dim = 0;  ///< D; 0 = hidden / heads; even for RoPE
  std::int64_t ffn = 0;       ///< F; 0 = 4 * hidden for gpt2, required for llama
  std::int64_t vocab = 0;     ///< V
  std::int64_t max_seq = 0;   ///< learned positions (gpt2), context of generation
  double rope_base = 10000.0;
  double norm_eps = 1e-5;
  bool tied = false;      ///< one table as embedding and as head; always true for gpt2
  bool qkv_bias = false;  ///< llama family only (gpt2 always has it)
  bool qk_norm = false;   ///< RMSNorm of each query and key head before RoPE; llama family only
  double dropout =
      0.0;  ///< in [0, 1): embedding, attention probabilities, residual branches; gpt2 only

  bool operator==(const ModelSpec&) const = default;

  [[nodiscard]] bool is_llama() const { return family == Family::kLlama; }
  [[nodiscard]] std::int64_t q_width() const { return heads * head_dim; }      ///< H*D
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_dim; }  ///< G*D
  [[nodiscard]] std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
  /// Width of the first feed-forward product: 2F (gate | up) for llama, F for gpt2.
  [[nodiscard]] std::int64_t up_width() const { return is_llama() ? 2 * ffn : ffn; }
};

/// Fills in derived sizes (kv_heads, head_dim, ffn, gpt2's fixed switches) and checks every field.
/// Throws UsageError naming the field, its value, the rule and the nearest valid value.
[[nodiscard]] ModelSpec resolved(ModelSpec spec);

}  // namespace trireme
