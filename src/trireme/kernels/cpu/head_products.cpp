#include "trireme/kernels/cpu/head_products.h"

#include <algorithm>

#include "trireme/base/errors.h"

namespace trireme::kernels {
namespace {

enum Gradient : std::size_t { kInput, kWeightWrite, kWeightAccumulate };

HeadProducts::Chunk make_chunk(std::int64_t tokens, const HeadProductsShape& head, bool training) {
  MatmulShape shape = logits_product(tokens, head.hidden, head.vocab, head.dtype);
  HeadProducts::Chunk chunk = {.tokens = tokens, .logits = Matmul(shape), .gradients = {}};
  if (!training) return chunk;
  shape.kind = MatmulKind::kInputGrad;
  chunk.gradients.emplace_back(shape);
  shape.kind = MatmulKind::kWeightGrad;
  chunk.gradients.emplace_back(shape);
  shape.accumulate = true;
  chunk.gradients.emplace_back(shape);
  return chunk;
}

}  // namespace

HeadProducts::HeadProducts(const HeadProductsShape& shape, bool training) {
  TRI_CHECK(shape.chunk_tokens >= 1 && shape.last_chunk_tokens >= 0);
  chunks_.push_back(make_chunk(shape.chunk_tokens, shape, training));
  if (shape.last_chunk_tokens != 0) {
    chunks_.push_back(make_chunk(shape.last_chunk_tokens, shape, training));
  }
  for (const Chunk& chunk : chunks_) {
    scratch_bytes_ = std::max(scratch_bytes_, chunk.logits.scratch_bytes());
    for (const Matmul& gradient : chunk.gradients) {
      scratch_bytes_ = std::max(scratch_bytes_, gradient.scratch_bytes());
    }
  }
}

HeadProducts::Chunk& HeadProducts::of(std::int64_t tokens) {
  Chunk& chunk = chunks_.front().tokens == tokens ? chunks_.front() : chunks_.back();
  TRI_CHECK(chunk.tokens == tokens);
  return chunk;
}

void HeadProducts::Chunk::input_gradient(const void* d_logits, const void* w, void* dx,
                                         void* scratch) {
  TRI_CHECK(!gradients.empty());
  gradients[kInput].run(d_logits, w, nullptr, dx, scratch);
}

void HeadProducts::Chunk::weight_gradient(const void* d_logits, const void* x, float* dw,
                                          bool accumulate, void* scratch) {
  TRI_CHECK(!gradients.empty());
  gradients[accumulate ? kWeightAccumulate : kWeightWrite].run(d_logits, x, nullptr, dw, scratch);
}

MatmulShape logits_product(std::int64_t num_rows, std::int64_t hidden, std::int64_t vocab,
                           DType dtype) {
  return {.kind = MatmulKind::kForward, .m = num_rows, .n = vocab, .k = hidden, .dtype = dtype};
}

}  // namespace trireme::kernels
