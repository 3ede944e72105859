#include "trireme/comm/rank_order_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "trireme/base/bf16.h"
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

/// An fp32 element that is rounded to bf16 on its way.
struct RoundedFloat {
  float value;
};

/// What elements of T are reduced in: their own type, or fp32 for bf16.
template <typename T>
using Wide =
    std::conditional_t<std::is_same_v<T, Bf16> || std::is_same_v<T, RoundedFloat>, float, T>;

float widened(Bf16 value) {
  return to_float(value);
}
float widened(RoundedFloat element) {
  return to_float(to_bf16(element.value));
}
template <typename T>
T widened(T value) {
  return value;
}

template <typename T>
const T* elems_at(const std::byte* bytes, std::int64_t index) {
  return reinterpret_cast<const T*>(bytes) + index;
}

// A target may be a source, so a partial result must not live in it. Of up to two sources there is
// none: nothing is kept between reading an element and writing it.
template <typename T, typename Op>
void reduce_block(std::span<const std::byte* const> sources, std::int64_t begin, std::int64_t count,
                  Wide<T>* result) {
  const Op op{};
  const T* first = elems_at<T>(sources[0], begin);
  if (sources.size() == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) result[i] = widened(first[i]);
    return;
  }
  const T* second = elems_at<T>(sources[1], begin);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) result[i] = op(widened(first[i]), widened(second[i]));
  for (std::size_t rank = 2; rank < sources.size(); ++rank) {
    const T* next = elems_at<T>(sources[rank], begin);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) result[i] = op(result[i], widened(next[i]));
  }
}

/// Bytes of `block` as elements of T, in place.
template <typename T>
void narrow_block(std::span<Wide<T>> block) {
  if constexpr (std::is_same_v<T, RoundedFloat>) {
    for (float& value : block) value = to_float(to_bf16(value));
  } else if constexpr (std::is_same_v<T, Bf16>) {
    round_to_bf16(block, std::as_writable_bytes(block).data());
  }
}

template <typename T, typename Op>
void reduce_all(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                std::int64_t num_elems) {
  constexpr std::int64_t kBlockElems = kBlockBytes / sizeof(Wide<T>);
  alignas(64) std::array<Wide<T>, kBlockElems> block;
  const bool needs_block = !std::is_same_v<T, Wide<T>> || sources.size() > 2;
  for (std::int64_t begin = 0; begin < num_elems; begin += kBlockElems) {
    const std::int64_t count = std::min(kBlockElems, num_elems - begin);
    const std::int64_t begin_bytes = begin * std::int64_t{sizeof(T)};
    auto* const result =
        needs_block ? block.data() : reinterpret_cast<Wide<T>*>(targets.front() + begin_bytes);
    reduce_block<T, Op>(sources, begin, count, result);
    narrow_block<T>(std::span(result, static_cast<std::size_t>(count)));
    for (std::byte* target : targets.subspan(needs_block ? 0 : 1)) {
      std::memcpy(target + begin_bytes, result, static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

template <typename T>
void reduce_as(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
               std::int64_t num_elems, ReduceOp op) {
  op == ReduceOp::kSum ? reduce_all<T, Sum>(sources, targets, num_elems)
                       : reduce_all<T, MaxOrNan>(sources, targets, num_elems);
}

}  // namespace

void reduce_in_rank_order(std::span<const std::byte* const> sources,
                          std::span<std::byte* const> targets, std::int64_t num_elems,
                          Reduction reduction) {
  TRI_CHECK(!sources.empty() && !targets.empty());
  switch (reduction.dtype) {
    case DType::kF32:
      if (reduction.travels_in_bf16)
        return reduce_as<RoundedFloat>(sources, targets, num_elems, reduction.op);
      return reduce_as<float>(sources, targets, num_elems, reduction.op);
    case DType::kBf16:
      return reduce_as<Bf16>(sources, targets, num_elems, reduction.op);
    case DType::kF64:
      return reduce_as<double>(sources, targets, num_elems, reduction.op);
    default:
      TRI_CHECK(false && "no reduction of this type");
  }
}

}  // namespace trireme
