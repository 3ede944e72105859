#include "trireme/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"

namespace trireme {
namespace {

enum class Kind : std::uint8_t {
  kMatrix,
  kResidualMatrix,  // writes into the residual stream: starts smaller by sqrt(2 L)
  kNorm,
  kBias,
};

struct ViewRow {
  std::string_view suffix;
  std::int64_t num_rows;
};

// One line of a family's table. Names are suffixes to the prefix of a layer (or of the model).
struct TableRow {
  ParameterRole role;
  std::string_view suffix;
  std::vector<std::int64_t> shape;
  TpSharding tp_sharding;
  Kind kind;
  std::vector<ViewRow> views = {};  // none: the root is its own view
  bool transposed_in_file = false;
};

constexpr double kInitStd = 0.02;

Init init_of(Kind kind) {
  if (kind == Kind::kNorm) return Init::kOnes;
  return kind == Kind::kBias ? Init::kZeros : Init::kNormal;
}

// The residual rule: Radford et al. 2019 (GPT-2), section 2.3; a layer has two residual branches.
float init_std_of(Kind kind, std::int64_t num_layers) {
  if (kind == Kind::kMatrix) return static_cast<float>(kInitStd);
  if (kind != Kind::kResidualMatrix) return 0.0F;
  return static_cast<float>(kInitStd / std::sqrt(2.0 * static_cast<double>(num_layers)));
}

std::vector<ParameterView> views_of(const TableRow& row, std::string_view prefix) {
  std::vector<ParameterView> views;
  std::int64_t first_row = 0;
  const auto add = [&](std::string_view suffix, std::int64_t num_rows) {
    views.push_back({.name = fmt::format("{}{}", prefix, suffix),
                     .first_row = first_row,
                     .num_rows = num_rows,
                     .transposed_in_file = row.transposed_in_file});
    first_row += num_rows;
  };
  for (const ViewRow& view : row.views) add(view.suffix, view.num_rows);
  if (row.views.empty()) add(row.suffix, row.shape.front());
  TRI_CHECK(first_row == row.shape.front());
  return views;
}

struct Place {
  std::string_view prefix;
  std::optional<std::int64_t> layer;
  std::int64_t num_layers;
};

Parameter make_parameter(const TableRow& row, const Place& place) {
  return {.name = fmt::format("{}{}", place.prefix, row.suffix),
          .role = row.role,
          .layer = place.layer,
          .shape = row.shape,
          .tp_sharding = row.tp_sharding,
          .init = init_of(row.kind),
          .init_std = init_std_of(row.kind, place.num_layers),
          .decays = row.kind == Kind::kMatrix || row.kind == Kind::kResidualMatrix,
          .trainable = true,
          .views = views_of(row, place.prefix)};
}

using Role = ParameterRole;
using Tp = TpSharding;

std::vector<TableRow> llama_attention_rows(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden, q = spec.q_width(), kv = spec.kv_width();
  std::vector<TableRow> rows = {
      {Role::kAttnNormWeight, "input_layernorm.weight", {hidden}, Tp::kPartialGrad, Kind::kNorm},
      {Role::kQkvWeight,
       "self_attn.qkv_proj.weight",
       {spec.qkv_width(), hidden},
       Tp::kRows,
       Kind::kMatrix,
       {{"self_attn.q_proj.weight", q},
        {"self_attn.k_proj.weight", kv},
        {"self_attn.v_proj.weight", kv}}}};
  if (spec.qkv_bias) {
    rows.push_back({Role::kQkvBias,
                    "self_attn.qkv_proj.bias",
                    {spec.qkv_width()},
                    Tp::kRows,
                    Kind::kBias,
                    {{"self_attn.q_proj.bias", q},
                     {"self_attn.k_proj.bias", kv},
                     {"self_attn.v_proj.bias", kv}}});
  }
  if (spec.qk_norm) {
    const std::vector<std::int64_t> shape = {spec.head_dim};
    rows.push_back(
        {Role::kQNormWeight, "self_attn.q_norm.weight", shape, Tp::kPartialByHeads, Kind::kNorm});
    rows.push_back(
        {Role::kKNormWeight, "self_attn.k_norm.weight", shape, Tp::kPartialByHeads, Kind::kNorm});
  }
  rows.push_back({Role::kProjWeight,
                  "self_attn.o_proj.weight",
                  {hidden, q},
                  Tp::kColumns,
                  Kind::kResidualMatrix});
  return rows;
}

std::vector<TableRow> llama_mlp_rows(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden, ffn = spec.ffn;
  return {
      {Role::kMlpNormWeight,
       "post_attention_layernorm.weight",
       {hidden},
       Tp::kPartialGrad,
       Kind::kNorm},
      {Role::kUpWeight,
       "mlp.gate_up_proj.weight",
       {spec.up_width(), hidden},
       Tp::kRows,
       Kind::kMatrix,
       {{"mlp.gate_proj.weight", ffn}, {"mlp.up_proj.weight", ffn}}},
      {Role::kDownWeight,
       "mlp.down_proj.weight",
       {hidden, ffn},
       Tp::kColumns,
       Kind::kResidualMatrix},
  };
}

// A column-split product is the last of its branch: it writes into the residual stream.
TableRow conv1d(Role role, std::string_view suffix, std::vector<std::int64_t> shape, Tp sharding) {
  return {.role = role,
          .suffix = suffix,
          .shape = std::move(shape),
          .tp_sharding = sharding,
          .kind = sharding == Tp::kColumns ? Kind::kResidualMatrix : Kind::kMatrix,
          .transposed_in_file = true};
}

std::vector<TableRow> gpt2_attention_rows(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden, qkv = spec.qkv_width();
  return {
      {Role::kAttnNormWeight, "ln_1.weight", {hidden}, Tp::kPartialGrad, Kind::kNorm},
      {Role::kAttnNormBias, "ln_1.bias", {hidden}, Tp::kPartialGrad, Kind::kBias},
      conv1d(Role::kQkvWeight, "attn.c_attn.weight", {qkv, hidden}, Tp::kRows),
      {Role::kQkvBias, "attn.c_attn.bias", {qkv}, Tp::kRows, Kind::kBias},
      conv1d(Role::kProjWeight, "attn.c_proj.weight", {hidden, hidden}, Tp::kColumns),
      {Role::kProjBias, "attn.c_proj.bias", {hidden}, Tp::kReplicated, Kind::kBias},
  };
}

std::vector<TableRow> gpt2_mlp_rows(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden, ffn = spec.ffn;
  return {
      {Role::kMlpNormWeight, "ln_2.weight", {hidden}, Tp::kPartialGrad, Kind::kNorm},
      {Role::kMlpNormBias, "ln_2.bias", {hidden}, Tp::kPartialGrad, Kind::kBias},
      conv1d(Role::kUpWeight, "mlp.c_fc.weight", {ffn, hidden}, Tp::kRows),
      {Role::kUpBias, "mlp.c_fc.bias", {ffn}, Tp::kRows, Kind::kBias},
      conv1d(Role::kDownWeight, "mlp.c_proj.weight", {hidden, ffn}, Tp::kColumns),
      {Role::kDownBias, "mlp.c_proj.bias", {hidden}, Tp::kReplicated, Kind::kBias},
  };
}

struct FamilyTable {
  std::string_view layer_prefix;
  std::vector<TableRow> first, attention, mlp, last;
};

FamilyTable llama_table(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden, vocab = spec.vocab;
  FamilyTable table = {
      .layer_prefix = "model.layers.",
      .first = {{Role::kTokenTable,
                 "model.embed_tokens.weight",
                 {vocab, hidden},
                 Tp::kRows,
                 Kind::kMatrix}},
      .attention = llama_attention_rows(spec),
      .mlp = llama_mlp_rows(spec),
      .last = {
          {Role::kFinalNormWeight, "model.norm.weight", {hidden}, Tp::kPartialGrad, Kind::kNorm}}};
  if (!spec.tied) {
    table.last.push_back(
        {Role::kHeadWeight, "lm_head.weight", {vocab, hidden}, Tp::kRows, Kind::kMatrix});
  }
  return table;
}

FamilyTable gpt2_table(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden;
  return {.layer_prefix = "transformer.h.",
          .first = {{Role::kTokenTable,
                     "transformer.wte.weight",
                     {spec.vocab, hidden},
                     Tp::kRows,
                     Kind::kMatrix},
                    {Role::kPositionTable,
                     "transformer.wpe.weight",
                     {spec.max_seq, hidden},
                     Tp::kReplicated,
                     Kind::kMatrix}},
          .attention = gpt2_attention_rows(spec),
          .mlp = gpt2_mlp_rows(spec),
          .last = {{Role::kFinalNormWeight,
                    "transformer.ln_f.weight",
                    {hidden},
                    Tp::kPartialGrad,
                    Kind::kNorm},
                   {Role::kFinalNormBias,
                    "transformer.ln_f.bias",
                    {hidden},
                    Tp::kPartialGrad,
                    Kind::kBias}}};
}

std::vector<Parameter> parameters_of(const ModelSpec& spec) {
  const FamilyTable table = spec.is_llama() ? llama_table(spec) : gpt2_table(spec);
  std::vector<Parameter> parameters;
  const auto append = [&](const std::vector<TableRow>& rows, std::string_view prefix,
                          std::optional<std::int64_t> layer) {
    for (const TableRow& row : rows) {
      parameters.push_back(
          make_parameter(row, {.prefix = prefix, .layer = layer, .num_layers = spec.layers}));
    }
  };
  append(table.first, "", {});
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::string prefix = fmt::format("{}{}.", table.layer_prefix, layer);
    append(table.attention, prefix, layer);
    append(table.mlp, prefix, layer);
  }
  append(table.last, "", {});
  return parameters;
}

}  // namespace

std::int64_t Parameter::num_elems() const {
  return num_rows() * row_elems();
}

std::int64_t Parameter::row_elems() const {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

ParameterTable::ParameterTable(const ModelSpec& spec) : tied_(spec.tied) {
  TRI_CHECK(spec == resolved(spec));
  rows_ = parameters_of(spec);
}

std::optional<std::int64_t> ParameterTable::find(ParameterRole role,
                                                 std::optional<std::int64_t> layer) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Parameter& parameter) {
    return parameter.role == role && parameter.layer == layer;
  });
  if (row == rows_.end()) return std::nullopt;
  return row - rows_.begin();
}

std::int64_t ParameterTable::head_index() const {
  const auto row = find(tied_ ? ParameterRole::kTokenTable : ParameterRole::kHeadWeight);
  TRI_CHECK(row.has_value());
  return *row;
}

std::int64_t ParameterTable::num_elems() const {
  return std::accumulate(
      rows_.begin(), rows_.end(), std::int64_t{0},
      [](std::int64_t sum, const Parameter& row) { return sum + row.num_elems(); });
}

void init_elems(const Parameter& parameter, std::uint64_t seed, std::int64_t first, float* out,
                std::int64_t num_elems) {
  const std::int64_t end = first + num_elems;
  TRI_CHECK(0 <= first && 0 <= num_elems && end <= parameter.num_elems());
  if (parameter.init != Init::kNormal) {
    std::fill(out, out + num_elems, parameter.init == Init::kOnes ? 1.0F : 0.0F);
    return;
  }
  for (const ParameterView& view : parameter.views) {
    const std::uint64_t key = philox_key(seed, view.name);
    const std::int64_t view_first = view.first_row * parameter.row_elems();
    const std::int64_t view_end = view_first + view.num_rows * parameter.row_elems();
    for (std::int64_t i = std::max(first, view_first); i < std::min(end, view_end); ++i) {
      const auto index = static_cast<std::uint64_t>(i - view_first);
      out[i - first] = parameter.init_std * philox_normal(key, index);
    }
  }
}

}  // namespace trireme
