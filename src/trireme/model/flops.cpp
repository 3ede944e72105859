#include "trireme/model/flops.h"

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/model/parameters.h"

namespace trireme {

FlopsPerToken flops_per_token(const ModelSpec& spec, std::int64_t seq) {
  TRI_CHECK(seq >= 0);
  std::int64_t num_matmul_params = 0;
  for (const Parameter& parameter : ParameterTable(spec).rows()) {
    const bool is_input_table = parameter.role == ParameterRole::kPositionTable ||
                                (parameter.role == ParameterRole::kTokenTable && !spec.tied);
    if (!is_input_table) num_matmul_params += parameter.num_elems();
  }
  const std::int64_t channels = spec.layers * spec.q_width();
  // Two products (scores, values), forward and twice that backward, two FLOPs each: 2 * 3 * 2.
  const double attention = 12.0 * static_cast<double>(channels) * static_cast<double>(seq);
  if (attention >= 0x1p61) {
    throw UsageError(
        fmt::format("[batch] seq = {}: attention takes {:.1e} FLOPs per token, beyond 64-bit "
                    "integers; use a shorter sequence",
                    seq, attention));
  }
  return {.matmul = 6 * num_matmul_params,
          .attention_full = 12 * channels * seq,
          .attention_causal = 6 * channels * seq};
}

std::int64_t gpt_layer_activation_bytes(std::int64_t seq, std::int64_t micro_batch,
                                        std::int64_t hidden, std::int64_t heads) {
  constexpr std::int64_t kAttention = 11, kMlp = 19, kNorms = 4;  // bytes per (token, channel)
  constexpr std::int64_t kScores = 2 + 1 + 2;  // softmax, mask, dropout: bytes per (token, head, s)
  const std::int64_t num_tokens = seq * micro_batch;
  return num_tokens * ((kAttention + kMlp + kNorms) * hidden + kScores * heads * seq);
}

}  // namespace trireme
