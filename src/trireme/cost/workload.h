// What is to be priced: a model's sizes, a layout, a batch and a precision.
#pragma once

#include <cstdint>
#include <string_view>

#include "trireme/layout/layout.h"
#include "trireme/model/spec.h"

namespace trireme {

enum class ComputePrecision : std::uint8_t { kBf16, kFp16, kFp8, kFp32 };
[[nodiscard]] std::string_view precision_name(ComputePrecision precision);

/// Sizes of a transformer, also of families that Trireme does not train.
struct ModelShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;  ///< rows of a learned position table
  bool is_gated = false;       ///< gate and up (SwiGLU): three matrices in the feed-forward part
  bool is_tied = false;        ///< one table as embedding and as head
  bool has_biases = false;     ///< of products and norms

  bool operator==(const ModelShape&) const = default;
  [[nodiscard]] std::int64_t q_width() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] std::int64_t up_width() const { return is_gated ? 2 * ffn : ffn; }
  /// Elements of a layer's four matrices.
  [[nodiscard]] std::int64_t layer_matrix_elems() const {
    return hidden * (qkv_width() + q_width() + up_width() + ffn);
  }
  /// And of its vectors: norms, biases.
  [[nodiscard]] std::int64_t layer_vector_elems() const {
    return has_biases ? 4 * hidden + qkv_width() + hidden + up_width() + hidden : 2 * hidden;
  }
  [[nodiscard]] std::int64_t table_elems() const { return vocab * hidden; }
  /// All parameters; a tied table counts once.
  [[nodiscard]] std::int64_t parameters() const {
    return layers * (layer_matrix_elems() + layer_vector_elems()) +
           (is_tied ? 1 : 2) * table_elems() + positions * hidden + (has_biases ? 2 : 1) * hidden;
  }
  /// Forward and backward FLOPs of one token, as FlopsPerToken: six for each parameter but the
  /// embedding and position tables, and 12 L H D S of attention (full square).
  [[nodiscard]] double flops_per_token(std::int64_t seq) const;
};

/// `spec` must be resolved.
[[nodiscard]] ModelShape shape_of(const ModelSpec& spec);

/// Inverse of shape_of() for families that Trireme trains, as a spec that is not resolved: a gated
/// shape is of the llama family. What a shape does not tell is as in `rest`.
[[nodiscard]] ModelSpec spec_of(const ModelShape& shape, ModelSpec rest = {});

struct Workload {
  ModelShape model;
  Layout layout;
  Batch batch;
  ComputePrecision precision = ComputePrecision::kBf16;

  [[nodiscard]] std::int64_t num_micro_batches() const {
    return batch.global_batch / (batch.micro_batch * layout.dp);
  }
  /// Of one micro-batch on one rank.
  [[nodiscard]] double micro_batch_tokens() const {
    return static_cast<double>(batch.micro_batch * batch.seq) / layout.cp;
  }
};

}  // namespace trireme
