#include "trireme/kernels/cpu/embedding.h"

#include <cstring>

#include "trireme/kernels/cpu/elementwise.h"
#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

bool has_row(const EmbeddingShape& shape, std::int32_t token) {
  return token >= shape.first_row && token < shape.first_row + shape.vocab;
}

void check_tokens(const EmbeddingShape& shape, const std::int32_t* tokens) {
  if (shape.is_shard) return;
  for (std::int64_t n = 0; n < shape.num_tokens; ++n) TRI_CHECK(has_row(shape, tokens[n]));
}

void check_positions(const EmbeddingShape& shape) {
  TRI_CHECK(shape.pieces.first >= 0 &&
            shape.pieces.position(shape.seq_len - 1) < shape.max_positions);
}

std::int64_t position_of(const EmbeddingShape& shape, std::int64_t n) {
  return shape.pieces.position((shape.first_token + n) % shape.seq_len);
}

template <typename T>
void add_columns(float* to, const T* from, Range columns) {
  for (std::int64_t i = columns.begin; i < columns.end; ++i) to[i] += to_float(from[i]);
}

/// h[n] += position_table[position(n)].
template <typename T>
void add_position(const EmbeddingShape& shape, const T* position_table, std::int64_t n, T* h) {
  isa_kernels().typed<T>().add(h + n * shape.hidden,
                               position_table + position_of(shape, n) * shape.hidden, shape.hidden);
}

}  // namespace

template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* table,
                       const std::type_identity_t<T>* position_table, T* h) {
  check_tokens(shape, tokens);
  if (position_table != nullptr) check_positions(shape);
  const std::int64_t hidden = shape.hidden;
  parallel_rows(shape.num_tokens, hidden, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      const std::size_t row_bytes = static_cast<std::size_t>(hidden) * sizeof(T);
      if (has_row(shape, tokens[n])) {
        std::memcpy(h + n * hidden, table + (tokens[n] - shape.first_row) * hidden, row_bytes);
      } else {
        std::memset(h + n * hidden, 0, row_bytes);
      }
      if (position_table != nullptr) add_position(shape, position_table, n, h);
    }
  });
}

template <typename T>
void add_positions(const EmbeddingShape& shape, const T* position_table, T* h) {
  check_positions(shape);
  parallel_rows(shape.num_tokens, shape.hidden, [&](Range range) {
    for (std::int64_t n = range.begin; n < range.end; ++n) {
      add_position(shape, position_table, n, h);
    }
  });
}

template <typename T>
void embedding_backward(const EmbeddingShape& shape,
                        const std::type_identity_t<EmbeddingBackward<T>>& args) {
  if (args.dtable != nullptr) check_tokens(shape, args.tokens);
  if (args.dposition != nullptr) check_positions(shape);
  const std::int64_t hidden = shape.hidden;
  if (args.dtable != nullptr && !args.accumulate_dtable)
    fill_zero(args.dtable, shape.vocab * hidden);
  if (args.dposition != nullptr && !args.accumulate_dposition)
    fill_zero(args.dposition, shape.max_positions * hidden);
  // A thread owns columns, not tokens: then every row sees its tokens in ascending order.
  constexpr std::int64_t kGrainColumns = 64;
  parallel_ranges(hidden, kGrainColumns, [&](Range columns) {
    for (std::int64_t n = 0; n < shape.num_tokens; ++n) {
      const T* dh = args.dh + n * hidden;
      if (args.dtable != nullptr && has_row(shape, args.tokens[n])) {
        add_columns(args.dtable + (args.tokens[n] - shape.first_row) * hidden, dh, columns);
      }
      if (args.dposition != nullptr) {
        add_columns(args.dposition + position_of(shape, n) * hidden, dh, columns);
      }
    }
  });
}

template void embedding_forward(const EmbeddingShape&, const std::int32_t*, const float*,
                                const float*, float*);
template void add_positions(const EmbeddingShape&, const float*, float*);
template void embedding_backward<float>(const EmbeddingShape&, const EmbeddingBackward<float>&);
template void embedding_forward(const EmbeddingShape&, const std::int32_t*, const Bf16*,
                                const Bf16*, Bf16*);
template void add_positions(const EmbeddingShape&, const Bf16*, Bf16*);
template void embedding_backward<Bf16>(const EmbeddingShape&, const EmbeddingBackward<Bf16>&);

}  // namespace trireme::kernels
