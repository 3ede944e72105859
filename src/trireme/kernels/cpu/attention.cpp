#include "trireme/kernels/cpu/attention.h"

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {
namespace {

void check(const AttentionShape& shape, const DropoutSite& dropout) {
  TRI_CHECK(shape.kv_heads >= 1 && shape.heads % shape.kv_heads == 0);
  TRI_CHECK(shape.kv_len >= 1 && shape.kv_len <= shape.cache_rows);
  TRI_CHECK(shape.queries.num_tokens(shape.seq_len) == shape.seq_len);
  // Other ranks' keys are taken for pieces of two, as the queries are.
  TRI_CHECK(shape.num_key_ranks == 1 || (shape.queries.is_cut() && shape.kv_len == shape.seq_len));
  TRI_CHECK(shape.keys.num_tokens(shape.kv_len) == shape.kv_len);
  TRI_CHECK(dropout.p >= 0 && dropout.p < 1);
}

/// Scratch of the calling OpenMP thread, in floats.
float* thread_scratch(void* scratch, std::int64_t elems) {
  return static_cast<float*>(scratch) + omp_get_thread_num() * elems;
}

template <typename T>
std::int64_t forward_elems(const AttentionShape& shape) {
  return attention_forward_scratch_elems(shape.head_dim, std::is_same_v<T, Bf16>);
}
template <typename T>
std::int64_t backward_elems(const AttentionShape& shape) {
  return attention_backward_scratch_elems(shape.head_dim, shape.num_keys(),
                                          std::is_same_v<T, Bf16>);
}

std::int64_t scratch_bytes(std::int64_t elems, int num_threads) {
  return elems * num_threads * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

double attention_forward_flops(const AttentionShape& shape) {
  TRI_CHECK(!shape.queries.is_cut() && !shape.keys.is_cut() && shape.num_key_ranks == 1);
  double pairs = 0;
  for (std::int64_t i = 0; i < shape.seq_len; ++i) {
    pairs += static_cast<double>(std::min(shape.kv_len, shape.queries.position(i) + 1));
  }
  return 4.0 * pairs * static_cast<double>(shape.batch * shape.heads * shape.head_dim);
}

template <typename T>
std::int64_t attention_forward_scratch_bytes(const AttentionShape& shape, int num_threads) {
  return scratch_bytes(forward_elems<T>(shape), num_threads);
}

template <typename T>
void attention_forward(const AttentionShape& shape,
                       const std::type_identity_t<AttentionForward<T>>& args,
                       const IsaKernels& isa) {
  check(shape, args.dropout);
  const std::int64_t num_blocks = attention_num_blocks(shape);
  const std::int64_t scratch_elems = forward_elems<T>(shape);
  parallel_for(shape.batch * shape.heads * num_blocks, [&](std::int64_t index) {
    const std::int64_t head_index = index / num_blocks;
    isa.typed<T>().attention_forward(shape, args,
                                     {.sample = head_index / shape.heads,
                                      .head = head_index % shape.heads,
                                      .block = index % num_blocks,
                                      .scratch = thread_scratch(args.scratch, scratch_elems)});
  });
}

template <typename T>
std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape, int num_threads) {
  return scratch_bytes(backward_elems<T>(shape), num_threads);
}

template <typename T>
void attention_backward(const AttentionShape& shape,
                        const std::type_identity_t<AttentionBackward<T>>& args,
                        const IsaKernels& isa) {
  check(shape, args.dropout);
  const std::int64_t scratch_elems = backward_elems<T>(shape);
  parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t index) {
    isa.typed<T>().attention_backward(shape, args,
                                      {.sample = index / shape.kv_heads,
                                       .head = index % shape.kv_heads,
                                       .scratch = thread_scratch(args.scratch, scratch_elems)});
  });
}

template std::int64_t attention_forward_scratch_bytes<float>(const AttentionShape&, int);
template std::int64_t attention_backward_scratch_bytes<float>(const AttentionShape&, int);
template void attention_forward<float>(const AttentionShape&, const AttentionForward<float>&,
                                       const IsaKernels&);
template void attention_backward<float>(const AttentionShape&, const AttentionBackward<float>&,
                                        const IsaKernels&);
template std::int64_t attention_forward_scratch_bytes<Bf16>(const AttentionShape&, int);
template std::int64_t attention_backward_scratch_bytes<Bf16>(const AttentionShape&, int);
template void attention_forward<Bf16>(const AttentionShape&, const AttentionForward<Bf16>&,
                                      const IsaKernels&);
template void attention_backward<Bf16>(const AttentionShape&, const AttentionBackward<Bf16>&,
                                       const IsaKernels&);

}  // namespace trireme::kernels
