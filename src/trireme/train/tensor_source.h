// Rectangles of a tensor in a file, as fp32: what a rank holds of it, and no byte more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/checkpoint/safetensors.h"

namespace trireme {

/// A tensor as rows and columns in root order, (out, in); a vector has one column.
struct MatrixShape {
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  bool is_transposed_in_file = false;  ///< the file holds (columns, rows)
  bool operator==(const MatrixShape&) const = default;
  [[nodiscard]] std::int64_t num_elems() const { return num_rows * num_columns; }
};

/// Rows [first_row, first_row + num_rows) and columns [first_column, first_column + num_columns).
struct Rectangle {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t first_column = 0;
  std::int64_t num_columns = 0;
  bool operator==(const Rectangle&) const = default;
  [[nodiscard]] std::int64_t num_elems() const { return num_rows * num_columns; }
  [[nodiscard]] Rectangle transposed() const {
    return {first_column, num_columns, first_row, num_rows};
  }
};

/// What both have; without elements if that is nothing.
[[nodiscard]] Rectangle intersection(const Rectangle& a, const Rectangle& b);

/// Calls `visit(first, count)` for the elements of a rectangle in a row-major tensor of
/// `num_columns` columns: all at once if its rows are whole, else row by row.
template <typename Visit>
void for_each_stretch(const Rectangle& part, std::int64_t num_columns, Visit visit) {
  if (part.num_columns == num_columns)
    return visit(part.first_row * num_columns, part.num_rows * num_columns);
  for (std::int64_t r = part.first_row; r < part.first_row + part.num_rows; ++r)
    visit(r * num_columns + part.first_column, part.num_columns);
}

/// One F32 or BF16 tensor of a model folder. The reader outlives it.
class TensorSource {
 public:
  /// `shape` as in the file. ResourceError, naming both, if the tensor is missing or its shape or
  /// type differs.
  TensorSource(const ShardedReader& reader, const std::string& name,
               const std::vector<std::int64_t>& shape, bool is_transposed_in_file = false);

  [[nodiscard]] const MatrixShape& shape() const { return shape_; }

  /// The elements of a rectangle, row after row. Reads their bytes and no others: one call for
  /// rows that are whole in the file, else one for each row of the file. Needs as much memory
  /// again as `out`, if the tensor is transposed in the file or BF16.
  void read(const Rectangle& part, std::span<float> out) const;

 private:
  void read_stretch(std::int64_t first, std::span<float> out) const;

  const ShardedReader& reader_;
  TensorInfo tensor_;
  MatrixShape shape_;
};

/// The whole tensor in file layout. Errors as TensorSource.
[[nodiscard]] std::vector<float> read_tensor(const ShardedReader& reader, const std::string& name,
                                             const std::vector<std::int64_t>& shape);

}  // namespace trireme
