#include "trireme/train/tensor_source.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"

namespace trireme {
namespace {

MatrixShape matrix_shape(const std::vector<std::int64_t>& shape, bool is_transposed_in_file) {
  const std::int64_t num_rows = shape.empty() ? 1 : shape.front();
  const std::int64_t num_columns = std::accumulate(shape.empty() ? shape.end() : shape.begin() + 1,
                                                   shape.end(), std::int64_t{1}, std::multiplies());
  if (!is_transposed_in_file) return {.num_rows = num_rows, .num_columns = num_columns};
  return {.num_rows = num_columns, .num_columns = num_rows, .is_transposed_in_file = true};
}

}  // namespace

Rectangle intersection(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.first_row, b.first_row);
  const std::int64_t column = std::max(a.first_column, b.first_column);
  const std::int64_t end_row = std::min(a.first_row + a.num_rows, b.first_row + b.num_rows);
  const std::int64_t end_column =
      std::min(a.first_column + a.num_columns, b.first_column + b.num_columns);
  if (row >= end_row || column >= end_column) return {};
  return {row, end_row - row, column, end_column - column};
}

TensorSource::TensorSource(const ShardedReader& reader, const std::string& name,
                           const std::vector<std::int64_t>& shape, bool is_transposed_in_file)
    : reader_(reader),
      tensor_(reader.at(name)),
      shape_(matrix_shape(shape, is_transposed_in_file)) {
  if (tensor_.shape != shape) {
    throw ResourceError(
        fmt::format("[checkpoint] tensor {} has shape [{}], the model needs [{}]; check the sizes "
                    "in [model] or in config.json",
                    name, fmt::join(tensor_.shape, ", "), fmt::join(shape, ", ")));
  }
  if (tensor_.dtype != DType::kF32 && tensor_.dtype != DType::kBf16) {
    throw ResourceError(
        fmt::format("[checkpoint] tensor {} has type {}; weights must be F32 or BF16", name,
                    dtype_name(tensor_.dtype)));
  }
}

void TensorSource::read_stretch(std::int64_t first, std::span<float> out) const {
  const std::int64_t first_byte = first * dtype_bytes(tensor_.dtype);
  if (tensor_.dtype == DType::kF32)
    return reader_.read_range(tensor_.name, first_byte, std::as_writable_bytes(out));
  std::vector<Bf16> values(out.size());
  reader_.read_range(tensor_.name, first_byte, std::as_writable_bytes(std::span(values)));
  std::transform(values.begin(), values.end(), out.begin(),
                 [](Bf16 value) { return to_float(value); });
}

void TensorSource::read(const Rectangle& part, std::span<float> out) const {
  TRI_CHECK(std::ssize(out) == part.num_elems());
  const auto read_in_file_order = [this](const Rectangle& rows, std::int64_t row_elems,
                                         std::span<float> to) {
    for_each_stretch(rows, row_elems, [&](std::int64_t first, std::int64_t count) {
      read_stretch(first, to.first(static_cast<std::size_t>(count)));
      to = to.subspan(static_cast<std::size_t>(count));
    });
  };
  if (!shape_.is_transposed_in_file) return read_in_file_order(part, shape_.num_columns, out);
  std::vector<float> values(out.size());
  read_in_file_order(part.transposed(), shape_.num_rows, values);
  const auto num_rows = static_cast<std::size_t>(part.num_rows);
  const auto num_columns = static_cast<std::size_t>(part.num_columns);
  for (std::size_t c = 0; c < num_columns; ++c) {
    for (std::size_t r = 0; r < num_rows; ++r) out[r * num_columns + c] = values[c * num_rows + r];
  }
}

std::vector<float> read_tensor(const ShardedReader& reader, const std::string& name,
                               const std::vector<std::int64_t>& shape) {
  const TensorSource source(reader, name, shape);
  std::vector<float> values(static_cast<std::size_t>(source.shape().num_elems()));
  source.read({.num_rows = source.shape().num_rows, .num_columns = source.shape().num_columns},
              values);
  return values;
}

}  // namespace trireme
