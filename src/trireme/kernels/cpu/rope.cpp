#include "trireme/kernels/cpu/rope.h"

#include <cmath>

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

/// Tokens whose norm gradients one partial holds: fixed, so that sums never depend on threads.
constexpr std::int64_t kBlockTokens = 32;

void combine(const float* partials, std::int64_t num_partials, const HeadsShape& shape,
             bool accumulate, float* out) {
  for (std::int64_t i = 0; i < shape.head_dim; ++i) {
    float sum = partials[i];
    for (std::int64_t b = 1; b < num_partials; ++b) sum += partials[b * 2 * shape.head_dim + i];
    out[i] = accumulate ? out[i] + sum : sum;
  }
}

}  // namespace

void rope_table(std::int64_t max_positions, std::int64_t head_dim, double base, float* cos,
                float* sin) {
  const std::int64_t half = div_exact(head_dim, 2);
  parallel_rows(max_positions, half * 64, [=](Range positions) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency =
          std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      for (std::int64_t position = positions.begin; position < positions.end; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        cos[position * half + i] = static_cast<float>(std::cos(angle));
        sin[position * half + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

template <typename T>
void split_heads_forward(const HeadsShape& shape,
                         const std::type_identity_t<SplitHeadsForward<T>>& args,
                         const IsaKernels& isa) {
  TRI_CHECK(shape.first_row >= 0 && shape.first_row + shape.seq_len <= shape.cache_rows);
  const std::int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  parallel_rows(shape.batch * shape.seq_len, width,
                [&](Range tokens) { isa.typed<T>().split_heads_forward(shape, args, tokens); });
}

std::int64_t split_heads_backward_scratch_bytes(const HeadsShape& shape) {
  return div_ceil(shape.batch * shape.seq_len, kBlockTokens) * 2 * shape.head_dim *
         static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void split_heads_backward(const HeadsShape& shape,
                          const std::type_identity_t<SplitHeadsBackward<T>>& args,
                          const IsaKernels& isa) {
  TRI_CHECK(shape.first_row == 0 && shape.seq_len == shape.cache_rows);
  const std::int64_t num_tokens = shape.batch * shape.seq_len, dim = shape.head_dim;
  const std::int64_t num_blocks = div_ceil(num_tokens, kBlockTokens);
  auto* partials = static_cast<float*>(args.scratch);
  parallel_for(num_blocks, [&](std::int64_t block) {
    const Range tokens = {.begin = block * kBlockTokens,
                          .end = std::min((block + 1) * kBlockTokens, num_tokens)};
    float* q_partial = args.dq_norm == nullptr ? nullptr : partials + block * 2 * dim;
    float* k_partial = args.dk_norm == nullptr ? nullptr : partials + (block * 2 + 1) * dim;
    isa.typed<T>().split_heads_backward(shape, args, tokens, q_partial, k_partial);
  });
  if (args.dq_norm != nullptr) {
    combine(partials, num_blocks, shape, args.accumulate_dw, args.dq_norm);
  }
  if (args.dk_norm != nullptr) {
    combine(partials + dim, num_blocks, shape, args.accumulate_dw, args.dk_norm);
  }
}

template void split_heads_forward<float>(const HeadsShape&, const SplitHeadsForward<float>&,
                                         const IsaKernels&);
template void split_heads_backward<float>(const HeadsShape&, const SplitHeadsBackward<float>&,
                                          const IsaKernels&);
template void split_heads_forward<Bf16>(const HeadsShape&, const SplitHeadsForward<Bf16>&,
                                        const IsaKernels&);
template void split_heads_backward<Bf16>(const HeadsShape&, const SplitHeadsBackward<Bf16>&,
                                         const IsaKernels&);

}  // namespace trireme::kernels
