// A bias apart from its product, and its gradient. Letters: N tokens, C width; T is float or
// Bf16.
#pragma once

#include <cstdint>

namespace trireme::kernels {

struct BiasShape {
  std::int64_t num_tokens = 0;
  std::int64_t width = 0;
};

/// y[N,C] += bias[C], for products whose sum over ranks comes before the bias.
template <typename T>
void add_bias(const BiasShape& shape, const T* bias, T* y);

/// db[C] = (accumulate: +=) sum over n of dy[N,C]. Each column adds its tokens in blocks of 64,
/// tokens and blocks in ascending order, whatever the number of threads.
template <typename T>
void bias_gradient(const BiasShape& shape, const T* dy, float* db, bool accumulate);

}  // namespace trireme::kernels
