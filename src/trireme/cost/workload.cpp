#include "trireme/cost/workload.h"

#include <array>

namespace trireme {

std::string_view precision_name(ComputePrecision precision) {
  constexpr std::array<std::string_view, 4> kNames = {"bf16", "fp16", "fp8", "fp32"};
  return kNames.at(static_cast<std::size_t>(precision));
}

double ModelShape::flops_per_token(std::int64_t seq) const {
  const std::int64_t tables = (is_tied ? 0 : table_elems()) + positions * hidden;
  return 6.0 * static_cast<double>(parameters() - tables) +
         12.0 * static_cast<double>(layers * q_width()) * static_cast<double>(seq);
}

ModelShape shape_of(const ModelSpec& spec) {
  return {.layers = spec.layers,
          .hidden = spec.hidden,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .ffn = spec.ffn,
          .vocab = spec.vocab,
          .positions = spec.is_llama() ? 0 : spec.max_seq,
          .is_gated = spec.is_llama(),
          .is_tied = spec.tied,
          .has_biases = !spec.is_llama()};
}

ModelSpec spec_of(const ModelShape& shape, ModelSpec rest) {
  rest.family = shape.is_gated ? Family::kLlama : Family::kGpt2;
  rest.layers = shape.layers;
  rest.hidden = shape.hidden;
  rest.heads = shape.heads;
  rest.kv_heads = shape.kv_heads;
  rest.head_dim = shape.head_dim;
  rest.ffn = shape.ffn;
  rest.vocab = shape.vocab;
  rest.tied = shape.is_tied;
  if (shape.positions > 0) rest.max_seq = shape.positions;
  return rest;
}

}  // namespace trireme
