#include "trireme/comm/threads/rank_order_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "trireme/base/errors.h"

namespace trireme {

namespace {

// Small enough that the block stays in the first-level cache beside the lines of the sources.
constexpr std::size_t kBlockBytes = 4096;

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

struct MaxOrNan {
  template <typename T>
  T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};

template <typename T>
const T* elems_at(const std::byte* bytes, std::int64_t index) {
  return reinterpret_cast<const T*>(bytes) + index;
}

// The partial result lives in `block`, never in a target: a target may be a source not yet read.
template <typename T, typename Op>
void reduce_block(std::span<const std::byte* const> sources, std::int64_t begin, std::int64_t count,
                  T* __restrict block) {
  const Op op{};
  const T* first = elems_at<T>(sources[0], begin);
  if (sources.size() == 1) {
    std::copy_n(first, count, block);
    return;
  }
  const T* second = elems_at<T>(sources[1], begin);
  for (std::int64_t i = 0; i < count; ++i) block[i] = op(first[i], second[i]);
  for (std::size_t rank = 2; rank < sources.size(); ++rank) {
    const T* next = elems_at<T>(sources[rank], begin);
    for (std::int64_t i = 0; i < count; ++i) block[i] = op(block[i], next[i]);
  }
}

template <typename T, typename Op>
void reduce_all(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                std::int64_t num_elems) {
  constexpr std::int64_t kBlockElems = kBlockBytes / sizeof(T);
  alignas(64) std::array<T, kBlockElems> block;
  for (std::int64_t begin = 0; begin < num_elems; begin += kBlockElems) {
    const std::int64_t count = std::min(kBlockElems, num_elems - begin);
    reduce_block<T, Op>(sources, begin, count, block.data());
    for (std::byte* target : targets) {
      std::memcpy(target + begin * std::int64_t{sizeof(T)}, block.data(),
                  static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

}  // namespace

void reduce_in_rank_order(std::span<const std::byte* const> sources,
                          std::span<std::byte* const> targets, std::int64_t num_elems,
                          Reduction reduction) {
  TRI_CHECK(!sources.empty());
  TRI_CHECK(reduction.dtype == DType::kF32 || reduction.dtype == DType::kF64);
  const bool is_f32 = reduction.dtype == DType::kF32;
  if (reduction.op == ReduceOp::kSum) {
    is_f32 ? reduce_all<float, Sum>(sources, targets, num_elems)
           : reduce_all<double, Sum>(sources, targets, num_elems);
  } else {
    is_f32 ? reduce_all<float, MaxOrNan>(sources, targets, num_elems)
           : reduce_all<double, MaxOrNan>(sources, targets, num_elems);
  }
}

}  // namespace trireme
