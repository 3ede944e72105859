#include "trireme/kernels/cpu/head_loss.h"

#include <cstring>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

HeadLossShape checked(HeadLossShape shape) {
  if (shape.num_tokens < 1 || shape.hidden < 1 || shape.vocab < 1 || shape.chunk_tokens < 1) {
    throw UsageError(fmt::format(
        "[head_loss] num_tokens={} hidden={} vocab={} chunk_tokens={}: sizes must be >= 1; correct "
        "the shape",
        shape.num_tokens, shape.hidden, shape.vocab, shape.chunk_tokens));
  }
  shape.chunk_tokens = std::min(shape.chunk_tokens, shape.num_tokens);
  return shape;
}

/// Scratch of one call: logits [chunk, V], token losses [chunk], then the products' own.
template <typename T>
struct Scratch {
  T* logits;
  double* losses;
  void* product;
};
template <typename T>
std::int64_t logits_bytes(const HeadLossShape& shape) {
  return round_up(shape.chunk_tokens * shape.vocab * static_cast<std::int64_t>(sizeof(T)), 64);
}
std::int64_t losses_bytes(const HeadLossShape& shape) {
  return round_up(shape.chunk_tokens * 8, 64);
}
template <typename T>
Scratch<T> cut(const HeadLossShape& shape, void* scratch) {
  auto* bytes = static_cast<std::byte*>(scratch);
  return {static_cast<T*>(scratch),
          reinterpret_cast<double*>(bytes + logits_bytes<T>(shape)),  // 64-byte aligned by round_up
          bytes + logits_bytes<T>(shape) + losses_bytes(shape)};
}

void check_labels(const std::int32_t* labels, const HeadLossShape& shape) {
  for (std::int64_t n = 0; n < shape.num_tokens; ++n) TRI_CHECK(labels[n] < shape.vocab);
}

/// Losses of `num` rows of logits; with grad_scale the logits become their gradient.
struct Rows {
  std::int64_t num = 0;
  std::int64_t vocab = 0;
  const std::int32_t* labels = nullptr;
  const float* grad_scale = nullptr;
};
template <typename T>
double loss_of_rows(const Rows& rows, const Scratch<T>& scratch, const IsaKernels& isa) {
  parallel_rows(rows.num, rows.vocab, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      T* logits = scratch.logits + n * rows.vocab;
      scratch.losses[n] = 0;
      if (rows.labels[n] >= 0) {
        scratch.losses[n] = isa.typed<T>().token_loss({.logits = logits,
                                                       .vocab = rows.vocab,
                                                       .label = rows.labels[n],
                                                       .grad_scale = rows.grad_scale});
      } else if (rows.grad_scale != nullptr) {
        std::memset(logits, 0, static_cast<std::size_t>(rows.vocab) * sizeof(T));
      }
    }
  });
  double sum = 0;
  for (std::int64_t n = 0; n < rows.num; ++n) sum += scratch.losses[n];
  return sum;
}

}  // namespace

template <typename T>
HeadLoss<T>::HeadLoss(const HeadLossShape& shape, bool training)
    : shape_(checked(shape)),
      products_({.chunk_tokens = shape_.chunk_tokens,
                 .last_chunk_tokens = shape_.num_tokens % shape_.chunk_tokens,
                 .hidden = shape_.hidden,
                 .vocab = shape_.vocab,
                 .dtype = std::is_same_v<T, Bf16> ? DType::kBf16 : DType::kF32},
                training) {}

template <typename T>
std::int64_t HeadLoss<T>::scratch_bytes() const {
  return logits_bytes<T>(shape_) + losses_bytes(shape_) + products_.scratch_bytes();
}

template <typename T>
void HeadLoss<T>::train(const HeadLossTrain<T>& args, const IsaKernels& isa) {
  TRI_CHECK(products_.has_gradients());
  check_labels(args.labels, shape_);
  const Scratch<T> scratch = cut<T>(shape_, args.scratch);
  for (std::int64_t first = 0; first < shape_.num_tokens; first += shape_.chunk_tokens) {
    const std::int64_t num = std::min(shape_.chunk_tokens, shape_.num_tokens - first);
    HeadProducts::Chunk& products = products_.of(num);
    const T* x = args.x + first * shape_.hidden;
    products.logits.run(x, args.w, nullptr, scratch.logits, scratch.product);
    *args.loss_sum += loss_of_rows({.num = num,
                                    .vocab = shape_.vocab,
                                    .labels = args.labels + first,
                                    .grad_scale = args.inv_tokens},
                                   scratch, isa);
    products.input_gradient(scratch.logits, args.w, args.dx + first * shape_.hidden,
                            scratch.product);
    if (args.dw == nullptr) continue;
    products.weight_gradient(scratch.logits, x, args.dw, args.accumulate_dw || first > 0,
                             scratch.product);
  }
}

template <typename T>
void HeadLoss<T>::evaluate(const HeadLossEvaluate<T>& args, const IsaKernels& isa) {
  check_labels(args.labels, shape_);
  const Scratch<T> scratch = cut<T>(shape_, args.scratch);
  for (std::int64_t first = 0; first < shape_.num_tokens; first += shape_.chunk_tokens) {
    const std::int64_t num = std::min(shape_.chunk_tokens, shape_.num_tokens - first);
    products_.of(num).logits.run(args.x + first * shape_.hidden, args.w, nullptr, scratch.logits,
                                 scratch.product);
    const Rows rows = {.num = num, .vocab = shape_.vocab, .labels = args.labels + first};
    *args.loss_sum += loss_of_rows(rows, scratch, isa);
  }
}

template class HeadLoss<float>;
template class HeadLoss<Bf16>;

}  // namespace trireme::kernels
