#include "trireme/execute/cpu/part_call.h"

#include "trireme/base/philox.h"

namespace trireme {

std::int64_t PartCall::cached_tokens() const {
  if (program_.kind != ProgramKind::kDecode) return 0;
  const auto* const length = at<std::int64_t>(Role::kLength);
  return length == nullptr ? 0 : *length;
}

kernels::DropoutSite PartCall::dropout() const {
  if (instruction_.site == Site::kNone) return {};
  const auto step = static_cast<std::uint64_t>(context_.step);
  const auto layer = static_cast<std::uint32_t>(instruction_.layer + 1);
  const PhiloxBlock mixed = philox(
      context_.seed, {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                      layer, static_cast<std::uint32_t>(instruction_.site)});
  return {.key = (std::uint64_t{mixed[1]} << 32) | mixed[0],
          .p = static_cast<float>(spec().dropout),
          .samples = at<const std::int64_t>(Role::kSamples)};
}

kernels::EmbeddingShape PartCall::embedding_shape() const {
  const TokenShape shape = token_shape(program_);
  return {.num_tokens = shape.tokens(),
          .seq_len = shape.seq,
          .hidden = spec().hidden,
          .vocab = spec().vocab,
          .max_positions = spec().is_llama() ? 0 : spec().max_seq,
          .pieces = program_.kind == ProgramKind::kDecode ? TokenPieces{.first = cached_tokens()}
                                                          : token_pieces(program_),
          .first_row = model_.first_vocab_row(),
          .is_shard = program_.request.layout.tp > 1};
}

kernels::NormShape PartCall::norm_shape() const {
  return trireme::norm_shape(program_, spec(), instruction_);
}

kernels::DropoutShape PartCall::dropout_shape() const {
  const std::int64_t num_tokens =
      count(instruction_.has(Role::kDx) ? Role::kDx : Role::kY) / spec().hidden;
  return {.num_tokens = num_tokens,
          .seq_len = token_shape(program_).seq,
          .channels = spec().hidden,
          .first_token = first_own_token(num_tokens),
          .pieces = token_pieces(program_)};
}

kernels::HeadsShape PartCall::heads_shape() const {
  kernels::HeadsShape shape = trireme::heads_shape(program_, model_);
  shape.first_row = cached_tokens();
  shape.first_position = cached_tokens();
  return shape;
}

kernels::AttentionShape PartCall::attention_shape() const {
  kernels::AttentionShape shape = trireme::attention_shape(program_, model_);
  if (instruction_.chunk > 0) {
    const int num_ranks = model_.num_cp_ranks();
    const int source = (model_.coord().cp + num_ranks - instruction_.chunk) % num_ranks;
    shape.keys = zigzag_pieces(program_.request.batch.seq, num_ranks, source);
  }
  if (program_.kind == ProgramKind::kDecode) {
    shape.kv_len = cached_tokens() + 1;
    shape.queries.first = cached_tokens();
  }
  return shape;
}

kernels::NormShape norm_shape(const Program& program, const ModelSpec& local_spec,
                              const Instruction& instruction) {
  const Use* h = instruction.find(instruction.has(Role::kX) ? Role::kX : Role::kH);
  return {.kind = local_spec.is_llama() ? kernels::NormKind::kRms : kernels::NormKind::kLayer,
          .num_tokens = num_elems(program, h->range) / local_spec.hidden,
          .hidden = local_spec.hidden,
          .eps = static_cast<float>(local_spec.norm_eps)};
}

kernels::HeadsShape heads_shape(const Program& program, const LocalModel& model) {
  const ModelSpec& spec = model.spec();
  const TokenShape shape = token_shape(program);
  return {.batch = shape.micro_batch,
          .seq_len = shape.seq,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .cache_rows = shape.cache > 0 ? shape.cache : shape.seq,
          .norm_eps = static_cast<float>(spec.norm_eps)};
}

kernels::AttentionShape attention_shape(const Program& program, const LocalModel& model) {
  const ModelSpec& spec = model.spec();
  const TokenShape shape = token_shape(program);
  const std::int64_t rows = shape.cache > 0 ? shape.cache : shape.seq;
  const TokenPieces pieces = token_pieces(program);
  return {.batch = shape.micro_batch,
          .seq_len = shape.seq,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .cache_rows = rows,
          .kv_len = rows,
          .first_head = model.coord().tp * spec.heads,
          .queries = pieces,
          .keys = pieces,
          .num_key_ranks = model.has_ring() ? 1 : model.num_cp_ranks()};
}

}  // namespace trireme
