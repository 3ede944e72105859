#include "trireme/kernels/cpu/bias.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

constexpr std::int64_t kBlockTokens = 64;
constexpr std::int64_t kTileColumns = 256;

/// Columns [begin, begin + count) of all tokens.
template <typename T>
void sum_columns(const BiasShape& shape, const T* dy, std::int64_t begin, std::int64_t count,
                 float* total) {
  std::array<float, kTileColumns> block{};
  for (std::int64_t first = 0; first < shape.num_tokens; first += kBlockTokens) {
    const std::int64_t last = std::min(first + kBlockTokens, shape.num_tokens);
    std::fill_n(block.begin(), count, 0.0F);
    for (std::int64_t n = first; n < last; ++n) {
      const T* const row = dy + n * shape.width + begin;
      for (std::int64_t c = 0; c < count; ++c)
        block[static_cast<std::size_t>(c)] += to_float(row[c]);
    }
    for (std::int64_t c = 0; c < count; ++c) total[c] += block[static_cast<std::size_t>(c)];
  }
}

}  // namespace

template <typename T>
void add_bias(const BiasShape& shape, const T* bias, T* y) {
  const IsaKernels& isa = isa_kernels();
  parallel_rows(shape.num_tokens, shape.width, [&](Range tokens) {
    for (std::int64_t n = tokens.begin; n < tokens.end; ++n) {
      isa.typed<T>().add(y + n * shape.width, bias, shape.width);
    }
  });
}

template <typename T>
void bias_gradient(const BiasShape& shape, const T* dy, float* db, bool accumulate) {
  const std::int64_t num_tiles = (shape.width + kTileColumns - 1) / kTileColumns;
#pragma omp parallel for schedule(static)
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::int64_t begin = tile * kTileColumns;
    const std::int64_t count = std::min(kTileColumns, shape.width - begin);
    std::array<float, kTileColumns> total{};
    sum_columns(shape, dy, begin, count, total.data());
    for (std::int64_t c = 0; c < count; ++c) {
      db[begin + c] = accumulate ? db[begin + c] + total[static_cast<std::size_t>(c)]
                                 : total[static_cast<std::size_t>(c)];
    }
  }
}

template void add_bias(const BiasShape&, const float*, float*);
template void bias_gradient(const BiasShape&, const float*, float*, bool);
template void add_bias(const BiasShape&, const Bf16*, Bf16*);
template void bias_gradient(const BiasShape&, const Bf16*, float*, bool);

}  // namespace trireme::kernels
