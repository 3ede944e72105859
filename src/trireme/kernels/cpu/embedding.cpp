#include "trireme/kernels/cpu/embedding.h"

#include <cstring>

#include "trireme/kernels/cpu/elementwise.h"
#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

void check_tokens(const EmbeddingShape& shape, const std::int32_t* tokens) {
  for (std::int64_t n = 0; n < shape.num_tokens; ++n) {
    TRI_CHECK(tokens[n] >= 0 && tokens[n] < shape.vocab);
  }
}

void check_positions(const EmbeddingShape& shape) {
  TRI_CHECK(shape.first_position >= 0 &&
            shape.first_position + shape.seq_len <= shape.max_positions);
}

void add_columns(float* to, const float* from, Range columns) {
  for (std::int64_t i = columns.begin; i < columns.end; ++i) to[i] += from[i];
}

}  // namespace

void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const float* table,
                       const float* position_table, float* h) {
  check_tokens(shape, tokens);
  if (position_table != nullptr) check_positions(shape);
  const std::int64_t hidden = shape.hidden;
  parallel_rows(shape.num_tokens, hidden, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      std::memcpy(h + n * hidden, table + tokens[n] * hidden,
                  static_cast<std::size_t>(hidden) * sizeof(float));
      if (position_table == nullptr) continue;
      const std::int64_t position = shape.first_position + n % shape.seq_len;
      add_columns(h + n * hidden, position_table + position * hidden, {.begin = 0, .end = hidden});
    }
  });
}

void embedding_backward(const EmbeddingShape& shape, const EmbeddingBackward& args) {
  check_tokens(shape, args.tokens);
  if (args.dposition != nullptr) check_positions(shape);
  const std::int64_t hidden = shape.hidden;
  if (!args.accumulate) {
    if (args.dtable != nullptr) fill_zero(args.dtable, shape.vocab * hidden);
    if (args.dposition != nullptr) fill_zero(args.dposition, shape.max_positions * hidden);
  }
  // A thread owns columns, not tokens: then every row sees its tokens in ascending order.
  constexpr std::int64_t kGrainColumns = 64;
  parallel_ranges(hidden, kGrainColumns, [&](Range columns) {
    for (std::int64_t n = 0; n < shape.num_tokens; ++n) {
      const float* dh = args.dh + n * hidden;
      const std::int64_t position = shape.first_position + n % shape.seq_len;
      if (args.dtable != nullptr) add_columns(args.dtable + args.tokens[n] * hidden, dh, columns);
      if (args.dposition != nullptr) add_columns(args.dposition + position * hidden, dh, columns);
    }
  });
}

}  // namespace trireme::kernels
