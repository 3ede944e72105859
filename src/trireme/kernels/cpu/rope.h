// Splits a fused QKV row into heads, with the optional query/key norm (Qwen3) and rotary positions.
// Letters: B micro-batch, T seq_len, H heads, G kv heads, D head_dim, N = B*T tokens.
// The type T is float or Bf16; arithmetic is fp32.
#pragma once

#include <cstdint>
#include <type_traits>

#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

/// qkv row n = q heads (H*D) | k heads (G*D) | v heads (G*D). k and v live in a cache of
/// `cache_rows` rows a head; training has cache_rows = seq_len, first_row = 0.
struct HeadsShape {
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t cache_rows = 0;
  std::int64_t first_row = 0;       ///< row of the cache that token t = 0 goes to
  std::int64_t first_position = 0;  ///< rotary position of token t = 0
  float norm_eps = 1e-6F;           ///< of q_norm and k_norm
};

/// cos and sin [max_positions, head_dim/2] of position * base^(-2i/head_dim), computed in fp64
/// (Su et al. 2021, arXiv:2104.09864, §3.2.2). head_dim must be even.
void rope_table(std::int64_t max_positions, std::int64_t head_dim, double base, float* cos,
                float* sin);

template <typename T = float>
struct SplitHeadsForward {
  const T* qkv = nullptr;      ///< [N, (H+2G)*D]
  const float* cos = nullptr;  ///< of rope_table; both nullptr: no rotation (GPT-2)
  const float* sin = nullptr;
  const T* q_norm = nullptr;  ///< [D] RMSNorm weight of each head, or nullptr
  const T* k_norm = nullptr;  ///< [D], or nullptr
  T* q = nullptr;             ///< [B,H,T,D]
  T* k = nullptr;             ///< [B,G,cache_rows,D], rows first_row .. first_row + T
  T* v = nullptr;             ///< as k
};

/// Half-rotation of Hugging Face: (x1, x2) = halves of a head; y1 = x1*cos - x2*sin,
/// y2 = x2*cos + x1*sin. Norm first, then rotation.
template <typename T = float>
void split_heads_forward(const HeadsShape& shape,
                         const std::type_identity_t<SplitHeadsForward<T>>& args,
                         const IsaKernels& isa = isa_kernels());

template <typename T = float>
struct SplitHeadsBackward {
  const T* dq = nullptr;   ///< [B,H,T,D]
  const T* dk = nullptr;   ///< [B,G,T,D]
  const T* dv = nullptr;   ///< [B,G,T,D]
  const T* qkv = nullptr;  ///< forward's input; read only with q_norm or k_norm
  const float* cos = nullptr;
  const float* sin = nullptr;
  const T* q_norm = nullptr;
  const T* k_norm = nullptr;
  T* dqkv = nullptr;           ///< [N, (H+2G)*D]
  float* dq_norm = nullptr;    ///< [D], or nullptr: no norm or frozen
  float* dk_norm = nullptr;    ///< [D], or nullptr
  bool accumulate_dw = false;  ///< dq_norm and dk_norm += …, else = …
  void* scratch = nullptr;     ///< split_heads_backward_scratch_bytes, alignment 64
};

/// Bytes for the partial norm gradients; needed only when dq_norm or dk_norm is given.
[[nodiscard]] std::int64_t split_heads_backward_scratch_bytes(const HeadsShape& shape);
/// Needs cache_rows == seq_len and first_row == 0 (training).
template <typename T = float>
void split_heads_backward(const HeadsShape& shape,
                          const std::type_identity_t<SplitHeadsBackward<T>>& args,
                          const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
