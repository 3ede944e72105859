// The matrix products of the output head, for full chunks of tokens and a shorter last one.
// Letters: N tokens of the chunk, C hidden, V vocabulary rows of the weight given.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/kernels/cpu/matmul.h"

namespace trireme::kernels {

struct HeadProductsShape {
  std::int64_t chunk_tokens = 0;
  std::int64_t last_chunk_tokens = 0;  ///< 0: no shorter last chunk
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  DType dtype = DType::kF32;  ///< of x, w, logits and their gradients; dw is fp32
};

/// Create it at load in the rank's thread, as a Matmul. One `scratch` serves all its products.
class HeadProducts {
 public:
  /// InternalError unless the sizes are >= 1 (last_chunk_tokens: >= 0): the owner has checked them.
  HeadProducts(const HeadProductsShape& shape, bool training);

  /// False: there are no gradients, and input_gradient() and weight_gradient() are InternalErrors.
  [[nodiscard]] bool has_gradients() const { return !chunks_.front().gradients.empty(); }
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }

  /// The products of one chunk size. x [N,C], w [V,C], logits and d_logits [N,V].
  struct Chunk {
    std::int64_t tokens = 0;
    Matmul logits;
    std::vector<Matmul> gradients;
    /// dx[N,C] = d_logits * w.
    void input_gradient(const void* d_logits, const void* w, void* dx, void* scratch);
    /// dw[V,C] = (accumulate: +=) d_logits^T * x.
    void weight_gradient(const void* d_logits, const void* x, float* dw, bool accumulate,
                         void* scratch);
  };
  /// InternalError unless `tokens` is one of the two chunk sizes.
  [[nodiscard]] Chunk& of(std::int64_t tokens);

 private:
  std::vector<Chunk> chunks_;
  std::int64_t scratch_bytes_ = 0;
};

/// Product of generation: logits[rows,V] = x[rows,C] * w[V,C]^T; use it as
/// Matmul(logits_product(…)).
[[nodiscard]] MatmulShape logits_product(std::int64_t num_rows, std::int64_t hidden,
                                         std::int64_t vocab, DType dtype = DType::kF32);

}  // namespace trireme::kernels
