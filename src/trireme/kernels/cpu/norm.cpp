#include "trireme/kernels/cpu/norm.h"

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

/// Tokens whose weight gradients one partial holds: fixed, so that sums never depend on threads.
constexpr std::int64_t kBlockTokens = 64;

/// out[i] (+)= partials[0][i] + partials[1][i] + …; partials lie `stride` apart.
struct PartialSums {
  const float* partials;
  std::int64_t num_partials;
  std::int64_t stride;
  bool accumulate;
};
void combine(const PartialSums& sums, float* out, std::int64_t count) {
  parallel_ranges(count, kElementwiseGrain / kBlockTokens, [=](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      float sum = sums.partials[i];
      for (std::int64_t b = 1; b < sums.num_partials; ++b)
        sum += sums.partials[b * sums.stride + i];
      out[i] = sums.accumulate ? out[i] + sum : sum;
    }
  });
}

std::int64_t partial_elems(const NormShape& shape) {
  return round_up(shape.hidden, 16) * (shape.kind == NormKind::kLayer ? 2 : 1);
}

}  // namespace

std::int64_t norm_stats_elems(const NormShape& shape) {
  return shape.num_tokens * (shape.kind == NormKind::kLayer ? 2 : 1);
}

template <typename T>
void norm_forward(const NormShape& shape, const std::type_identity_t<NormForward<T>>& args,
                  const IsaKernels& isa) {
  parallel_rows(shape.num_tokens, shape.hidden,
                [&](Range tokens) { isa.typed<T>().norm_forward(shape, args, tokens); });
}

template <typename T>
void norm_from_stats(const NormShape& shape, const std::type_identity_t<NormFromStats<T>>& args,
                     const IsaKernels& isa) {
  parallel_rows(shape.num_tokens, shape.hidden,
                [&](Range tokens) { isa.typed<T>().norm_from_stats(shape, args, tokens); });
}

std::int64_t norm_backward_scratch_bytes(const NormShape& shape) {
  return div_ceil(shape.num_tokens, kBlockTokens) * partial_elems(shape) *
         static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void norm_backward(const NormShape& shape, const std::type_identity_t<NormBackward<T>>& args,
                   const IsaKernels& isa) {
  const std::int64_t num_blocks = div_ceil(shape.num_tokens, kBlockTokens);
  const std::int64_t stride = partial_elems(shape), bias_at = round_up(shape.hidden, 16);
  auto* partials = static_cast<float*>(args.scratch);
  parallel_for(num_blocks, [&](std::int64_t block) {
    const Range tokens = {.begin = block * kBlockTokens,
                          .end = std::min((block + 1) * kBlockTokens, shape.num_tokens)};
    float* partial = args.dweight == nullptr ? nullptr : partials + block * stride;
    isa.typed<T>().norm_backward(shape, args, tokens, partial,
                                 partial == nullptr ? nullptr : partial + bias_at);
  });
  if (args.dweight == nullptr) return;
  const auto sums_at = [&](std::int64_t offset) {
    return PartialSums{.partials = partials + offset,
                       .num_partials = num_blocks,
                       .stride = stride,
                       .accumulate = args.accumulate_dw};
  };
  combine(sums_at(0), args.dweight, shape.hidden);
  if (shape.kind == NormKind::kLayer) combine(sums_at(bias_at), args.dbias, shape.hidden);
}

template void norm_forward<float>(const NormShape&, const NormForward<float>&, const IsaKernels&);
template void norm_from_stats<float>(const NormShape&, const NormFromStats<float>&,
                                     const IsaKernels&);
template void norm_backward<float>(const NormShape&, const NormBackward<float>&, const IsaKernels&);
template void norm_forward<Bf16>(const NormShape&, const NormForward<Bf16>&, const IsaKernels&);
template void norm_from_stats<Bf16>(const NormShape&, const NormFromStats<Bf16>&,
                                    const IsaKernels&);
template void norm_backward<Bf16>(const NormShape&, const NormBackward<Bf16>&, const IsaKernels&);

}  // namespace trireme::kernels
