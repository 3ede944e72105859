#include "trireme/kernels/cpu/head_loss_shard.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

HeadProductsShape checked(const HeadProductsShape& shape, DType dtype) {
  if (shape.chunk_tokens < 1 || shape.last_chunk_tokens < 0 || shape.hidden < 1 ||
      shape.vocab < 1) {
    throw UsageError(fmt::format(
        "[head_loss_shard] chunk_tokens={} last_chunk_tokens={} hidden={} vocab={}: sizes must be "
        ">= 1, and last_chunk_tokens >= 0; correct the shape",
        shape.chunk_tokens, shape.last_chunk_tokens, shape.hidden, shape.vocab));
  }
  HeadProductsShape typed = shape;
  typed.dtype = dtype;
  return typed;
}

/// One row of logits turned into its gradient. `column` of the label may lie outside this rank.
template <typename T>
struct GradientRow {
  T* logits = nullptr;
  std::int64_t vocab = 0;
  std::int64_t column = 0;
  float row_max = 0;
  float sum = 0;
  float label_logit = 0;  ///< less row_max
  float inv_tokens = 0;
};
template <typename T>
void differentiate(const GradientRow<T>& row, const IsaKernels& isa) {
  const double scale = static_cast<double>(row.inv_tokens) / static_cast<double>(row.sum);
  isa.typed<T>().scaled_exp(row.logits, row.vocab, row.row_max, static_cast<float>(scale));
  if (row.column < 0 || row.column >= row.vocab) return;
  if constexpr (std::is_same_v<T, Bf16>) {
    // From fp32: the rounded probability less 1 would lose what is left of it.
    const double probability = std::exp(static_cast<double>(row.label_logit)) * scale;
    row.logits[row.column] =
        to_bf16(static_cast<float>(probability - static_cast<double>(row.inv_tokens)));
  } else {
    row.logits[row.column] -= row.inv_tokens;
  }
}

}  // namespace

template <typename T>
HeadLossShard<T>::HeadLossShard(const HeadProductsShape& shape, bool training)
    : vocab_(shape.vocab),
      products_(checked(shape, std::is_same_v<T, Bf16> ? DType::kBf16 : DType::kF32), training) {}

template <typename T>
void HeadLossShard<T>::logits(const HeadLossShardLogits<T>& args, const IsaKernels& isa) {
  products_.of(args.num_tokens).logits.run(args.x, args.w, nullptr, args.logits, args.scratch);
  parallel_rows(args.num_tokens, vocab_, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      args.row_max[n] = isa.typed<T>().row_max(args.logits + n * vocab_, vocab_);
    }
  });
}

template <typename T>
void HeadLossShard<T>::sums(const HeadLossShardSums<T>& args, const IsaKernels& isa) const {
  float* const exp_sums = args.sums;
  float* const label_logits = args.sums + args.num_tokens;
  parallel_rows(args.num_tokens, vocab_, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      exp_sums[n] = label_logits[n] = 0;
      if (args.labels[n] < 0) continue;
      const T* const row = args.logits + n * vocab_;
      exp_sums[n] = static_cast<float>(isa.typed<T>().exp_sum(row, vocab_, args.row_max[n]));
      const std::int64_t column = args.labels[n] - args.first_row;
      if (column >= 0 && column < vocab_) label_logits[n] = to_float(row[column]) - args.row_max[n];
    }
  });
}

template <typename T>
void HeadLossShard<T>::gradient(const HeadLossShardGradient<T>& args, const IsaKernels& isa) {
  TRI_CHECK(products_.has_gradients());
  HeadProducts::Chunk& products = products_.of(args.num_tokens);
  parallel_rows(args.num_tokens, vocab_, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      T* const row = args.logits + n * vocab_;
      if (args.labels[n] < 0) {
        std::memset(row, 0, static_cast<std::size_t>(vocab_) * sizeof(T));
        continue;
      }
      differentiate<T>({.logits = row,
                        .vocab = vocab_,
                        .column = args.labels[n] - args.first_row,
                        .row_max = args.row_max[n],
                        .sum = args.sums[n],
                        .label_logit = args.sums[args.num_tokens + n],
                        .inv_tokens = *args.inv_tokens},
                       isa);
    }
  });
  products.input_gradient(args.logits, args.w, args.dx, args.scratch);
  if (args.dw != nullptr) {
    products.weight_gradient(args.logits, args.x, args.dw, args.accumulate_dw, args.scratch);
  }
  loss({.num_tokens = args.num_tokens,
        .labels = args.labels,
        .sums = args.sums,
        .loss_sum = args.loss_sum});
}

template <typename T>
void HeadLossShard<T>::loss(const HeadLossShardLoss& args) {
  double sum = 0;
  for (std::int64_t n = 0; n < args.num_tokens; ++n) {
    if (args.labels[n] < 0) continue;
    sum += std::log(static_cast<double>(args.sums[n])) -
           static_cast<double>(args.sums[args.num_tokens + n]);
  }
  *args.loss_sum += sum;
}

template class HeadLossShard<float>;
template class HeadLossShard<Bf16>;

}  // namespace trireme::kernels
