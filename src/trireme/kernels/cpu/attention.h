// Causal attention with grouped heads; the score matrix exists only one tile at a time.
// Letters: B batch, T seq_len (queries), H heads, G kv_heads, D head_dim, N = B*T tokens.
// Dao et al. 2022 (arXiv:2205.14135), algorithms 1 and 4. The type T is float or Bf16; tiles
// and sums are fp32.
#pragma once

#include <cstdint>
#include <type_traits>

#include "trireme/base/token_pieces.h"
#include "trireme/kernels/cpu/dropout.h"
#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

/// Query i sits at position(i) of `queries` and sees the keys at positions <= it. Query head h uses
/// kv head h / (H/G). Scores are scaled by 1/sqrt(D).
///
/// Keys are those of one rank, key row j at position(j) of `keys`; or, with num_key_ranks > 1, of
/// so many, k and v [ranks,B,G,cache_rows,D], of which each has its zigzag_pieces of two.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t cache_rows = 0;  ///< rows a head of k and v; training: seq_len
  std::int64_t kv_len = 0;      ///< rows in use; training: seq_len
  std::int64_t first_head = 0;  ///< global number of head 0 (tp shards); only dropout reads it
  TokenPieces queries = {};
  TokenPieces keys = {};
  int num_key_ranks = 1;
  /// Rows of dk and dv that one kv head has over all ranks.
  [[nodiscard]] std::int64_t num_keys() const { return num_key_ranks * kv_len; }
};

/// FLOPs of the causal half: 4*D per visible (query, key) pair and head. Backward does 2.5 times
/// that.
[[nodiscard]] double attention_forward_flops(const AttentionShape& shape);

template <typename T = float>
struct AttentionForward {
  const T* q = nullptr;  ///< [B,H,T,D]
  const T* k = nullptr;  ///< [B,G,cache_rows,D], of each rank
  const T* v = nullptr;  ///< as k
  T* o = nullptr;        ///< [N, H*D], token-major
  float* lse = nullptr;  ///< [B,H,T] natural log of the softmax's denominator
  /// One of several calls, each with keys of its own: [N, H*D] in place of o, in fp32.
  float* partial = nullptr;
  /// partial and lse hold the result for the keys of earlier calls; now for theirs and these:
  /// weighted by their denominators (Milakov and Gimelshein 2018, arXiv:1805.02867, section 3.1).
  bool merges = false;
  /// Of the probabilities: Philox counter {16*(i/64) + i%16, key position, sample low, sample high
  /// << 16 | head}, word (i/16)%4, for the query at position i.
  DropoutSite dropout = {};
  void* scratch = nullptr;  ///< attention_forward_scratch_bytes, alignment 64
};

/// Tiles of each thread; `num_threads` is the OpenMP setting under which the kernel will run (fewer
/// is allowed).
template <typename T = float>
[[nodiscard]] std::int64_t attention_forward_scratch_bytes(const AttentionShape& shape,
                                                           int num_threads);
/// A query's bits depend only on its own sequence and head, not on batch or threads.
template <typename T = float>
void attention_forward(const AttentionShape& shape,
                       const std::type_identity_t<AttentionForward<T>>& args,
                       const IsaKernels& isa = isa_kernels());

template <typename T = float>
struct AttentionBackward {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* o = nullptr;
  const float* lse = nullptr;
  const T* d_o = nullptr;  ///< [N, H*D]
  T* dq = nullptr;         ///< [B,H,T,D]
  T* dk = nullptr;         ///< [B,G,cache_rows,D] of each rank; rows < kv_len are written
  T* dv = nullptr;         ///< as dk
  /// One of several calls, each with keys of its own and the o and lse of all: in place of dq, dk
  /// and dv, in fp32.
  float* dq_partial = nullptr;
  float* dk_partial = nullptr;
  float* dv_partial = nullptr;
  bool accumulates_dq = false;  ///< dq_partial += …, else = …
  DropoutSite dropout = {};     ///< equal to forward's: the mask is drawn again
  void* scratch = nullptr;      ///< attention_backward_scratch_bytes, alignment 64
};

template <typename T = float>
[[nodiscard]] std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape,
                                                            int num_threads);
/// Recomputes the scores tile by tile. dk and dv sum the heads of a group in ascending order.
template <typename T = float>
void attention_backward(const AttentionShape& shape,
                        const std::type_identity_t<AttentionBackward<T>>& args,
                        const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
