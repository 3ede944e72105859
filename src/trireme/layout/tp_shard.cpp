#include "trireme/layout/tp_shard.h"

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

/// Rows of the pieces of a fused parameter, each of which is cut on its own.
std::vector<std::int64_t> segments_of(const ModelSpec& spec, const Parameter& parameter) {
  switch (parameter.role) {
    case ParameterRole::kQkvWeight:
    case ParameterRole::kQkvBias:
      return {spec.q_width(), spec.kv_width(), spec.kv_width()};
    case ParameterRole::kUpWeight:
    case ParameterRole::kUpBias:
      if (spec.is_llama()) return {spec.ffn, spec.ffn};
      return {spec.ffn};
    default:
      return {parameter.num_rows()};
  }
}

bool is_cut_by_vocabulary(const Parameter& parameter) {
  return parameter.role == ParameterRole::kTokenTable ||
         parameter.role == ParameterRole::kHeadWeight;
}

ParameterShard vocabulary_shard(const ModelSpec& spec, const Parameter& parameter, int tp,
                                int tp_rank) {
  const std::int64_t first = first_vocab_row(spec, tp, tp_rank);
  const std::int64_t num_rows = first_vocab_row(spec, tp, tp_rank + 1) - first;
  const std::int64_t num_columns = parameter.row_elems();
  return {.num_rows = num_rows,
          .num_columns = num_columns,
          .blocks = {{.first_row = first, .num_rows = num_rows, .num_columns = num_columns}}};
}

ParameterShard row_shard(const ModelSpec& spec, const Parameter& parameter, int tp, int tp_rank) {
  ParameterShard shard = {.num_columns = parameter.row_elems()};
  std::int64_t segment_begin = 0;
  for (const std::int64_t segment_rows : segments_of(spec, parameter)) {
    const std::int64_t num_rows = div_exact(segment_rows, tp);
    shard.blocks.push_back({.first_row = segment_begin + tp_rank * num_rows,
                            .num_rows = num_rows,
                            .num_columns = shard.num_columns,
                            .shard_row = shard.num_rows});
    shard.num_rows += num_rows;
    segment_begin += segment_rows;
  }
  TRI_CHECK(segment_begin == parameter.num_rows());
  return shard;
}

ParameterShard column_shard(const Parameter& parameter, int tp, int tp_rank) {
  const std::int64_t num_columns = div_exact(parameter.row_elems(), tp);
  return {.num_rows = parameter.num_rows(),
          .num_columns = num_columns,
          .blocks = {{.num_rows = parameter.num_rows(),
                      .first_column = tp_rank * num_columns,
                      .num_columns = num_columns}}};
}

ParameterShard whole_shard(const Parameter& parameter) {
  return {.num_rows = parameter.num_rows(),
          .num_columns = parameter.row_elems(),
          .blocks = {{.num_rows = parameter.num_rows(), .num_columns = parameter.row_elems()}}};
}

}  // namespace

std::int64_t first_vocab_row(const ModelSpec& spec, int tp, int tp_rank) {
  TRI_CHECK(0 <= tp_rank && tp_rank <= tp);
  return spec.vocab * tp_rank / tp;
}

ParameterShard tp_shard(const ModelSpec& spec, const Parameter& parameter, int tp, int tp_rank) {
  TRI_CHECK(0 <= tp_rank && tp_rank < tp);
  switch (parameter.tp_sharding) {
    case TpSharding::kRows:
      return is_cut_by_vocabulary(parameter) ? vocabulary_shard(spec, parameter, tp, tp_rank)
                                             : row_shard(spec, parameter, tp, tp_rank);
    case TpSharding::kColumns:
      return column_shard(parameter, tp, tp_rank);
    case TpSharding::kReplicated:
    case TpSharding::kPartialGrad:
    case TpSharding::kPartialByHeads:
      break;
  }
  return whole_shard(parameter);
}

ModelSpec tp_local_spec(const ModelSpec& spec, int tp, int tp_rank) {
  ModelSpec local = spec;
  local.heads = div_exact(spec.heads, tp);
  local.kv_heads = div_exact(spec.kv_heads, tp);
  local.ffn = div_exact(spec.ffn, tp);
  local.vocab = first_vocab_row(spec, tp, tp_rank + 1) - first_vocab_row(spec, tp, tp_rank);
  return local;
}

}  // namespace trireme
