// What a tensor-parallel rank holds of each parameter (Megatron-LM, arXiv:1909.08053, section 3).
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/parameters.h"

namespace trireme {

/// Rows [first_row, first_row + num_rows) and columns [first_column, first_column + num_columns) of
/// a parameter, which lie in the shard at rows [shard_row, shard_row + num_rows), whole.
struct ShardBlock {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t first_column = 0;
  std::int64_t num_columns = 0;
  std::int64_t shard_row = 0;
  bool operator==(const ShardBlock&) const = default;
};

/// The blocks of a shard fill its rows in order. A vector has one column.
struct ParameterShard {
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  std::vector<ShardBlock> blocks = {};
  bool operator==(const ParameterShard&) const = default;
  [[nodiscard]] std::int64_t num_elems() const { return num_rows * num_columns; }
};

/// `parameter` is a row of the table of `spec`; heads, kv_heads and ffn divide by tp
/// (check_layout). Vocabulary rows are cut as evenly as can be: rank r holds the rows from
/// first_vocab_row(r) to first_vocab_row(r + 1), floor(r * V / tp).
[[nodiscard]] ParameterShard tp_shard(const ModelSpec& spec, const Parameter& parameter, int tp,
                                      int tp_rank);

/// Sizes as the kernels of a tensor-parallel rank see them: its share of heads, kv_heads, ffn and
/// vocab. Not resolved(): hidden need not be heads * head_dim.
[[nodiscard]] ModelSpec tp_local_spec(const ModelSpec& spec, int tp, int tp_rank);

/// First row of the vocabulary that the rank holds; V for tp_rank == tp.
[[nodiscard]] std::int64_t first_vocab_row(const ModelSpec& spec, int tp, int tp_rank);

}  // namespace trireme
