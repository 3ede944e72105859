#include "trireme/kernels/cpu/packed_matmul.h"

#include <algorithm>
#include <cstddef>
#include <omp.h>

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

constexpr std::int64_t kDepth = 256;    // of B at once: 16 columns of it are half of an L1 cache
constexpr std::int64_t kRows = 96;      // of A at once, per thread: 96 KiB, for L2
constexpr std::int64_t kColumns = 384;  // of B at once: 384 KiB, for L2 too
constexpr std::int64_t kPartialRows = 1024;  // of a bf16 result whose fp32 sums are kept at once
constexpr std::int64_t kAlign = 64;
constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
/// FLOPs below which one thread is faster than a team.
constexpr std::int64_t kSmall = std::int64_t{1} << 21;

std::int64_t last_of(std::int64_t first, std::int64_t step, std::int64_t count) {
  return std::min(first + step, count);
}

}  // namespace

struct PackedMatmul::Scratch {
  float* b = nullptr;        // [panel][depth][panel columns]
  float* a = nullptr;        // [thread][rows, depth]
  float* partial = nullptr;  // [rows, columns], fp32 sums of a bf16 result
  float* bias = nullptr;     // [columns] of all, in fp32
  std::int64_t columns = 0;  // of `partial`
  std::int64_t a_elems = 0;  // of one thread
  std::int64_t bytes = 0;
};

template <typename T>
struct PackedMatmul::Operands {
  const T* a = nullptr;
  const T* b = nullptr;
  const float* bias = nullptr;
  void* out = nullptr;
};

bool PackedMatmul::has_partial() const {
  return is_narrow() && sizes_.depth > kDepth;
}

PackedMatmul::PackedMatmul(const MatmulShape& shape, int num_threads, const IsaKernels& isa)
    : shape_(shape), num_threads_(num_threads), isa_(isa) {
  switch (shape.kind) {
    case MatmulKind::kForward:
      sizes_ = {.rows = shape.m, .columns = shape.n, .depth = shape.k};
      break;
    case MatmulKind::kInputGrad:
      sizes_ = {.rows = shape.m, .columns = shape.k, .depth = shape.n};
      break;
    case MatmulKind::kWeightGrad:
      sizes_ = {.rows = shape.n, .columns = shape.k, .depth = shape.m};
      break;
  }
  if (2 * shape.m * shape.n * shape.k < kSmall) num_threads_ = 1;
  // Every thread gets as many blocks as any other.
  const std::int64_t num_blocks = round_up(div_ceil(sizes_.rows, kRows), num_threads_);
  block_rows_ = std::min(kRows, round_up(div_ceil(sizes_.rows, num_blocks), 6));
}

PackedMatmul::Scratch PackedMatmul::cut(void* scratch) const {
  Scratch cut;
  auto* const floats = static_cast<float*>(scratch);
  const auto take = [&](std::int64_t elems) {
    float* const at = floats == nullptr ? nullptr : floats + cut.bytes / kFloat;
    cut.bytes += round_up(elems * kFloat, kAlign);
    return at;
  };
  const std::int64_t depth = std::min(kDepth, sizes_.depth);
  cut.columns = std::min(kColumns, round_up(sizes_.columns, isa_.gemm_columns));
  cut.a_elems = round_up(block_rows_ * depth, kAlign);
  cut.b = take(cut.columns * depth);
  cut.a = take(num_threads_ * cut.a_elems);
  if (has_partial()) cut.partial = take(std::min(kPartialRows, sizes_.rows) * cut.columns);
  if (shape_.dtype == DType::kBf16 && shape_.bias) cut.bias = take(sizes_.columns);
  return cut;
}

std::int64_t PackedMatmul::scratch_bytes() const {
  return cut(nullptr).bytes;
}

template <typename T>
void PackedMatmul::pack(const Operands<T>& operands, const Sizes& at,
                        const Scratch& scratch) const {
  const TypedKernels<T>& typed = isa_.typed<T>();
  const std::int64_t depth = last_of(at.depth, kDepth, sizes_.depth) - at.depth;
  const std::int64_t end = last_of(at.columns, kColumns, sizes_.columns);
  const std::int64_t num_panels = div_ceil(end - at.columns, isa_.gemm_columns);
#pragma omp for schedule(static)
  for (std::int64_t panel = 0; panel < num_panels; ++panel) {
    const std::int64_t first = at.columns + panel * isa_.gemm_columns;
    const std::int64_t columns = last_of(first, isa_.gemm_columns, end) - first;
    float* const out = scratch.b + panel * isa_.gemm_columns * depth;
    if (shape_.kind == MatmulKind::kForward) {
      typed.pack_panel_transposed(operands.b + first * sizes_.depth + at.depth, sizes_.depth, depth,
                                  columns, out);
    } else {
      typed.pack_panel(operands.b + at.depth * sizes_.columns + first, sizes_.columns, depth,
                       columns, out);
    }
  }
}

template <typename T>
void PackedMatmul::multiply(const Operands<T>& operands, const Sizes& at, std::int64_t last_row,
                            std::int64_t origin, const Scratch& scratch) const {
  const std::int64_t depth = last_of(at.depth, kDepth, sizes_.depth) - at.depth;
  const std::int64_t rows = last_row - at.rows, stride = sizes_.columns;
  float* const a = scratch.a + omp_get_thread_num() * scratch.a_elems;
  if (is_a_transposed()) {
    isa_.typed<T>().widen_rows(operands.a + at.depth * sizes_.rows + at.rows, sizes_.rows, depth,
                               rows, a);
  } else {
    isa_.typed<T>().widen_rows(operands.a + at.rows * sizes_.depth + at.depth, sizes_.depth, rows,
                               depth, a);
  }
  GemmBlock block = {.a = a,
                     .b = scratch.b,
                     .rows = rows,
                     .columns = last_of(at.columns, kColumns, sizes_.columns) - at.columns,
                     .depth = depth,
                     .is_a_transposed = is_a_transposed(),
                     .accumulate = shape_.accumulate || at.depth > 0};
  const bool is_last = at.depth + depth == sizes_.depth;
  if (is_last && shape_.bias) block.bias = operands.bias + at.columns;
  if (!is_narrow()) {
    block.c = static_cast<float*>(operands.out) + at.rows * stride + at.columns;
    block.c_stride = stride;
  } else if (has_partial()) {
    block.c_stride = scratch.columns;
    block.c = scratch.partial + (at.rows - origin) * scratch.columns;
  }
  if (is_narrow() && is_last) {
    block.narrow = static_cast<Bf16*>(operands.out) + at.rows * stride + at.columns;
    block.narrow_stride = stride;
  }
  isa_.gemm_block(block);
}

/// Rows [origin, end) of the result. By all threads of a team, which meet behind each block.
template <typename T>
void PackedMatmul::run_rows(const Operands<T>& operands, const Scratch& scratch,
                            std::int64_t origin, std::int64_t end) const {
  for (std::int64_t column = 0; column < sizes_.columns; column += kColumns) {
    for (std::int64_t depth = 0; depth < sizes_.depth; depth += kDepth) {
      pack(operands, {.columns = column, .depth = depth}, scratch);
#pragma omp for schedule(dynamic)
      for (std::int64_t row = origin; row < end; row += block_rows_) {
        multiply(operands, {.rows = row, .columns = column, .depth = depth},
                 last_of(row, block_rows_, end), origin, scratch);
      }
    }
  }
}

template <typename T>
void PackedMatmul::run_as(const Operands<T>& operands, const Scratch& scratch) const {
  const std::int64_t rows_at_once = has_partial() ? kPartialRows : sizes_.rows;
#pragma omp parallel num_threads(num_threads_) if (num_threads_ > 1)
  for (std::int64_t origin = 0; origin < sizes_.rows; origin += rows_at_once) {
    run_rows(operands, scratch, origin, last_of(origin, rows_at_once, sizes_.rows));
  }
}

void PackedMatmul::run(const void* a, const void* b, const void* bias, void* out,
                       void* scratch) const {
  const Scratch parts = cut(scratch);
  if (shape_.dtype == DType::kF32) {
    return run_as<float>({.a = static_cast<const float*>(a),
                          .b = static_cast<const float*>(b),
                          .bias = static_cast<const float*>(bias),
                          .out = out},
                         parts);
  }
  if (shape_.bias)
    isa_.bf16.widen_rows(static_cast<const Bf16*>(bias), 0, 1, sizes_.columns, parts.bias);
  run_as<Bf16>({.a = static_cast<const Bf16*>(a),
                .b = static_cast<const Bf16*>(b),
                .bias = parts.bias,
                .out = out},
               parts);
}

}  // namespace trireme::kernels
