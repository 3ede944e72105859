// Token and learned-position tables. Letters: T seq_len, C hidden, V rows of the token table given
// (the vocabulary or a shard of it), S max_positions. The type T is float or Bf16.
#pragma once

#include <cstdint>
#include <type_traits>

#include "trireme/base/token_pieces.h"

namespace trireme::kernels {

/// Token n (of num_tokens = B*T, token-major) sits at position(t) of `pieces`, where t is
/// (first_token + n) % seq_len.
struct EmbeddingShape {
  std::int64_t num_tokens = 0;
  std::int64_t seq_len = 0;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  ///< rows of the position table; 0 when there is none
  TokenPieces pieces = {};
  std::int64_t first_token = 0;  ///< of a run of flattened tokens: number of its row 0
  std::int64_t first_row = 0;    ///< vocabulary row of row 0 of the table
  bool is_shard = false;  ///< tokens outside [first_row, first_row + V) belong to other ranks
};

/// h[N,C] = table[tokens[n] - first_row] (+ position_table[position(n)] unless nullptr). table
/// [V,C], position_table [S,C]. A token outside the table reads a row of zeros when the table is a
/// shard; otherwise it is an InternalError: the data layer checks first.
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* table,
                       const std::type_identity_t<T>* position_table, T* h);

/// h[N,C] += position_table[position(n)], after the table alone: the bits of both tables at once.
/// Reads the positions of `shape` only. Its gradient is embedding_backward() without dtable.
template <typename T>
void add_positions(const EmbeddingShape& shape, const T* position_table, T* h);

template <typename T = float>
struct EmbeddingBackward {
  const std::int32_t* tokens = nullptr;  ///< [N]; not read without dtable
  const T* dh = nullptr;                 ///< [N,C]
  float* dtable = nullptr;               ///< [V,C], or nullptr: not wanted (frozen)
  float* dposition = nullptr;            ///< [S,C], or nullptr
  bool accumulate_dtable = false;        ///< false: it is zeroed first
  bool accumulate_dposition = false;     ///< likewise
};

/// Adds dh to the rows that forward read; a token outside a shard adds nothing to dtable. Each row
/// adds its tokens in ascending order, whatever the number of threads.
template <typename T = float>
void embedding_backward(const EmbeddingShape& shape,
                        const std::type_identity_t<EmbeddingBackward<T>>& args);

}  // namespace trireme::kernels
