// Token and learned-position tables. Letters: T seq_len, C hidden, V vocab, S max_positions.
#pragma once

#include <cstdint>

namespace trireme::kernels {

/// Token n (of num_tokens = B*T, token-major) sits at position first_position + n % seq_len.
struct EmbeddingShape {
  std::int64_t num_tokens = 0;
  std::int64_t seq_len = 0;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  ///< rows of the position table; 0 when there is none
  std::int64_t first_position = 0;
};

/// h[N,C] = table[tokens[n]] (+ position_table[position(n)] unless nullptr). table [V,C],
/// position_table [S,C]. InternalError when a token is outside [0, V): the data layer checks first.
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const float* table,
                       const float* position_table, float* h);

struct EmbeddingBackward {
  const std::int32_t* tokens = nullptr;  ///< [N]
  const float* dh = nullptr;             ///< [N,C]
  float* dtable = nullptr;               ///< [V,C], or nullptr: not wanted (frozen)
  float* dposition = nullptr;            ///< [S,C], or nullptr
  bool accumulate = false;               ///< false: both tables are zeroed first
};

/// Adds dh to the rows that forward read. Each row adds its tokens in ascending order, whatever the
/// number of threads.
void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward& args);

}  // namespace trireme::kernels
