// A bias apart from its product, and its gradient. Letters: N tokens, C width.
#pragma once

#include <cstdint>

namespace trireme::kernels {

struct BiasShape {
  std::int64_t num_tokens = 0;
  std::int64_t width = 0;
};

/// y[N,C] += bias[C], for products whose sum over ranks comes before the bias.
void add_bias(const BiasShape& shape, const float* bias, float* y);

/// db[C] = (accumulate: +=) sum over n of dy[N,C]. Each column adds its tokens in blocks of 64,
/// tokens and blocks in ascending order, whatever the number of threads.
void bias_gradient(const BiasShape& shape, const float* dy, float* db, bool accumulate);

}  // namespace trireme::kernels
