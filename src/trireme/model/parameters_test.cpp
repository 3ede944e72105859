#include "trireme/model/parameters.h"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/model/known_models_ref.h"

namespace trireme {
namespace {

using Names = std::vector<std::string>;
using Shape = std::vector<std::int64_t>;

// All sizes differ, so that swapped ones are seen.
ModelSpec small_llama() {
  return resolved({.layers = 2,
                   .hidden = 40,
                   .heads = 6,
                   .kv_heads = 2,
                   .head_dim = 8,
                   .ffn = 56,
                   .vocab = 101});
}

ModelSpec small_gpt2() {
  return resolved({.family = Family::kGpt2,
                   .layers = 2,
                   .hidden = 40,
                   .heads = 5,
                   .ffn = 56,
                   .vocab = 101,
                   .max_seq = 17});
}

const Parameter& row_of(const ParameterTable& table, ParameterRole role,
                        std::optional<std::int64_t> layer = {}) {
  return table.rows().at(static_cast<std::size_t>(table.find(role, layer).value()));
}

Names names_of(const ParameterTable& table) {
  Names names;
  for (const Parameter& row : table.rows()) names.push_back(row.name);
  return names;
}

TEST(ParameterCount, MatchesLlama2With7B) {
  EXPECT_EQ(ParameterTable(known_models::llama_2_7b()).num_elems(), 6'738'415'616);
}

TEST(ParameterCount, MatchesLlama3With8B) {
  EXPECT_EQ(ParameterTable(known_models::llama_3_8b()).num_elems(), 8'030'261'248);
}

TEST(ParameterCount, MatchesTinyLlamaWith1B) {
  EXPECT_EQ(ParameterTable(known_models::tinyllama_1b()).num_elems(), 1'100'048'384);
}

TEST(ParameterCount, MatchesQwen25With0P5BTiedAndWithBiases) {
  EXPECT_EQ(ParameterTable(known_models::qwen2_5_0_5b()).num_elems(), 494'032'768);
}

TEST(ParameterCount, MatchesQwen15With72B) {
  EXPECT_EQ(ParameterTable(known_models::qwen1_5_72b()).num_elems(), 72'287'920'128);
}

TEST(ParameterCount, MatchesQwen3With32BAndHeadNorms) {
  EXPECT_EQ(ParameterTable(known_models::qwen3_32b()).num_elems(), 32'762'123'264);
}

TEST(ParameterCount, MatchesGpt2With124M) {
  EXPECT_EQ(ParameterTable(known_models::gpt2_124m()).num_elems(), 124'439'808);
}

// known_faults D01: each tensor rank holds all of them.
TEST(ParameterTable, NormsOfLlama3AreWholeOnEachTensorRank) {
  const ParameterTable table(known_models::llama_3_8b());
  std::int64_t num_norm_elems = 0;
  for (const Parameter& row : table.rows()) {
    if (row.tp_sharding == TpSharding::kPartialGrad) num_norm_elems += row.num_elems();
  }
  EXPECT_EQ(num_norm_elems, 266'240);
}

TEST(ParameterTable, ListsALlamaInForwardOrder) {
  Names expected = {"model.embed_tokens.weight"};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* suffix :
         {"input_layernorm.weight", "self_attn.qkv_proj.weight", "self_attn.o_proj.weight",
          "post_attention_layernorm.weight", "mlp.gate_up_proj.weight", "mlp.down_proj.weight"}) {
      expected.push_back(layer + suffix);
    }
  }
  expected.insert(expected.end(), {"model.norm.weight", "lm_head.weight"});
  EXPECT_EQ(names_of(ParameterTable(small_llama())), expected);
}

TEST(ParameterTable, ListsAGpt2InForwardOrder) {
  Names expected = {"transformer.wte.weight", "transformer.wpe.weight"};
  for (const std::string layer : {"transformer.h.0.", "transformer.h.1."}) {
    for (const char* suffix :
         {"ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias",
          "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight",
          "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"}) {
      expected.push_back(layer + suffix);
    }
  }
  expected.insert(expected.end(), {"transformer.ln_f.weight", "transformer.ln_f.bias"});
  EXPECT_EQ(names_of(ParameterTable(small_gpt2())), expected);
}

TEST(ParameterTable, ShapesAreOutByIn) {
  const ParameterTable table(small_llama());
  EXPECT_EQ(row_of(table, ParameterRole::kTokenTable).shape, (Shape{101, 40}));
  EXPECT_EQ(row_of(table, ParameterRole::kQkvWeight, 1).shape, (Shape{48 + 16 + 16, 40}));
  EXPECT_EQ(row_of(table, ParameterRole::kProjWeight, 1).shape, (Shape{40, 48}));
  EXPECT_EQ(row_of(table, ParameterRole::kUpWeight, 1).shape, (Shape{112, 40}));
  EXPECT_EQ(row_of(table, ParameterRole::kDownWeight, 1).shape, (Shape{40, 56}));
  EXPECT_EQ(row_of(table, ParameterRole::kHeadWeight).shape, (Shape{101, 40}));
}

TEST(ParameterTable, ShapesOfAGpt2AreOutByInToo) {
  const ParameterTable table(small_gpt2());
  EXPECT_EQ(row_of(table, ParameterRole::kPositionTable).shape, (Shape{17, 40}));
  EXPECT_EQ(row_of(table, ParameterRole::kQkvWeight, 0).shape, (Shape{120, 40}));
  EXPECT_EQ(row_of(table, ParameterRole::kQkvBias, 0).shape, (Shape{120}));
  EXPECT_EQ(row_of(table, ParameterRole::kUpWeight, 0).shape, (Shape{56, 40}));
  EXPECT_EQ(row_of(table, ParameterRole::kDownWeight, 0).shape, (Shape{40, 56}));
}

TEST(ParameterTable, QueriesKeysAndValuesAreViewsOfOneRoot) {
  const std::vector<ParameterView> expected = {
      {.name = "model.layers.1.self_attn.q_proj.weight", .first_row = 0, .num_rows = 48},
      {.name = "model.layers.1.self_attn.k_proj.weight", .first_row = 48, .num_rows = 16},
      {.name = "model.layers.1.self_attn.v_proj.weight", .first_row = 64, .num_rows = 16}};
  EXPECT_EQ(row_of(ParameterTable(small_llama()), ParameterRole::kQkvWeight, 1).views, expected);
}

TEST(ParameterTable, GateAndUpAreViewsOfOneRoot) {
  const std::vector<ParameterView> expected = {
      {.name = "model.layers.0.mlp.gate_proj.weight", .first_row = 0, .num_rows = 56},
      {.name = "model.layers.0.mlp.up_proj.weight", .first_row = 56, .num_rows = 56}};
  EXPECT_EQ(row_of(ParameterTable(small_llama()), ParameterRole::kUpWeight, 0).views, expected);
}

TEST(ParameterTable, BiasesOfQueriesKeysAndValuesAreViewsOfOneRoot) {
  ModelSpec spec = small_llama();
  spec.qkv_bias = true;
  const ParameterTable table(spec);
  const Parameter& bias = row_of(table, ParameterRole::kQkvBias, 0);
  EXPECT_EQ(bias.name, "model.layers.0.self_attn.qkv_proj.bias");
  const std::vector<ParameterView> expected = {
      {.name = "model.layers.0.self_attn.q_proj.bias", .first_row = 0, .num_rows = 48},
      {.name = "model.layers.0.self_attn.k_proj.bias", .first_row = 48, .num_rows = 16},
      {.name = "model.layers.0.self_attn.v_proj.bias", .first_row = 64, .num_rows = 16}};
  EXPECT_EQ(bias.views, expected);
}

TEST(ParameterTable, HeadNormsHaveTheWidthOfOneHead) {
  ModelSpec spec = small_llama();
  spec.qk_norm = true;
  const ParameterTable table(spec);
  EXPECT_EQ(row_of(table, ParameterRole::kQNormWeight, 1).name,
            "model.layers.1.self_attn.q_norm.weight");
  EXPECT_EQ(row_of(table, ParameterRole::kKNormWeight, 1).name,
            "model.layers.1.self_attn.k_norm.weight");
  EXPECT_EQ(row_of(table, ParameterRole::kKNormWeight, 1).shape, (Shape{8}));
}

TEST(ParameterTable, OnlyTheConvolutionsOfAGpt2AreTransposedInTheFile) {
  std::set<std::string> transposed;
  for (const Parameter& row : ParameterTable(small_gpt2()).rows()) {
    for (const ParameterView& view : row.views) {
      if (view.transposed_in_file) transposed.insert(view.name);
    }
  }
  std::set<std::string> expected;
  for (const std::string layer : {"transformer.h.0.", "transformer.h.1."}) {
    expected.insert({layer + "attn.c_attn.weight", layer + "attn.c_proj.weight",
                     layer + "mlp.c_fc.weight", layer + "mlp.c_proj.weight"});
  }
  EXPECT_EQ(transposed, expected);
}

TEST(ParameterTable, ViewsCoverTheRowsOfEachRoot) {
  for (const ModelSpec& spec : {small_llama(), small_gpt2()}) {
    for (const Parameter& row : ParameterTable(spec).rows()) {
      SCOPED_TRACE(row.name);
      std::int64_t next_row = 0;
      for (const ParameterView& view : row.views) {
        EXPECT_EQ(view.first_row, next_row);
        next_row += view.num_rows;
      }
      EXPECT_EQ(next_row, row.num_rows());
    }
  }
}

TEST(ParameterTable, TensorRanksSplitALlamaByRowsAndColumns) {
  const ParameterTable table(small_llama());
  EXPECT_EQ(row_of(table, ParameterRole::kTokenTable).tp_sharding, TpSharding::kRows);
  EXPECT_EQ(row_of(table, ParameterRole::kQkvWeight, 0).tp_sharding, TpSharding::kRows);
  EXPECT_EQ(row_of(table, ParameterRole::kProjWeight, 0).tp_sharding, TpSharding::kColumns);
  EXPECT_EQ(row_of(table, ParameterRole::kUpWeight, 0).tp_sharding, TpSharding::kRows);
  EXPECT_EQ(row_of(table, ParameterRole::kDownWeight, 0).tp_sharding, TpSharding::kColumns);
  EXPECT_EQ(row_of(table, ParameterRole::kHeadWeight).tp_sharding, TpSharding::kRows);
  EXPECT_EQ(row_of(table, ParameterRole::kFinalNormWeight).tp_sharding, TpSharding::kPartialGrad);
}

TEST(ParameterTable, TensorRanksSplitTheBiasesOfSplitOutputsOnly) {
  const ParameterTable table(small_gpt2());
  EXPECT_EQ(row_of(table, ParameterRole::kQkvBias, 0).tp_sharding, TpSharding::kRows);
  EXPECT_EQ(row_of(table, ParameterRole::kUpBias, 0).tp_sharding, TpSharding::kRows);
  EXPECT_EQ(row_of(table, ParameterRole::kProjBias, 0).tp_sharding, TpSharding::kReplicated);
  EXPECT_EQ(row_of(table, ParameterRole::kDownBias, 0).tp_sharding, TpSharding::kReplicated);
  EXPECT_EQ(row_of(table, ParameterRole::kPositionTable).tp_sharding, TpSharding::kReplicated);
}

TEST(ParameterTable, HeadNormsHaveAGradientOfEachRanksHeads) {
  const ParameterTable table(known_models::qwen3_32b());
  EXPECT_EQ(row_of(table, ParameterRole::kQNormWeight, 0).tp_sharding, TpSharding::kPartialByHeads);
  EXPECT_EQ(row_of(table, ParameterRole::kKNormWeight, 0).tp_sharding, TpSharding::kPartialByHeads);
}

TEST(ParameterTable, MatricesDecayVectorsDoNot) {
  for (const ModelSpec& spec : {small_llama(), small_gpt2()}) {
    for (const Parameter& row : ParameterTable(spec).rows()) {
      SCOPED_TRACE(row.name);
      EXPECT_EQ(row.decays, row.shape.size() == 2);
      EXPECT_TRUE(row.trainable);
    }
  }
}

TEST(ParameterTable, AnUntiedHeadIsTheLastRow) {
  const ParameterTable table(small_llama());
  EXPECT_EQ(table.head_index(), table.size() - 1);
}

// known_faults A04: counted once.
TEST(ParameterTable, ATiedHeadIsTheTokenTable) {
  ModelSpec spec = small_llama();
  spec.tied = true;
  const ParameterTable table(spec);
  EXPECT_EQ(table.head_index(), 0);
  EXPECT_EQ(table.find(ParameterRole::kHeadWeight), std::nullopt);
  EXPECT_EQ(table.num_elems(), ParameterTable(small_llama()).num_elems() - std::int64_t{101} * 40);
}

TEST(ParameterTable, FindsNothingInALayerThatDoesNotExist) {
  EXPECT_EQ(ParameterTable(small_llama()).find(ParameterRole::kQkvWeight, 2), std::nullopt);
  EXPECT_EQ(ParameterTable(small_llama()).find(ParameterRole::kQkvWeight), std::nullopt);
}

TEST(ParameterTable, AnUnresolvedSpecIsABug) {
  ModelSpec spec = small_llama();
  spec.head_dim = 0;
  spec.hidden = 48;
  EXPECT_THROW(ParameterTable{spec}, InternalError);
}

std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(parameter.num_elems()), -1.0F);
  init_elems(parameter, seed, 0, values.data(), parameter.num_elems());
  return values;
}

TEST(InitElems, IsAPureFunctionOfSeedViewNameAndIndex) {
  const ParameterTable table(small_llama());
  const std::vector<float> values = initial_values(row_of(table, ParameterRole::kQkvWeight, 1), 7);
  const std::uint64_t q_key = philox_key(7, "model.layers.1.self_attn.q_proj.weight");
  const std::uint64_t k_key = philox_key(7, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(values.at(1), 0.02F * philox_normal(q_key, 1));
  EXPECT_EQ(values.at(1919), 0.02F * philox_normal(q_key, 1919));
  EXPECT_EQ(values.at(1920), 0.02F * philox_normal(k_key, 0));
}

TEST(InitElems, AreTheSameWhenMadeInPieces) {
  const ParameterTable table(small_llama());
  const Parameter& qkv = row_of(table, ParameterRole::kQkvWeight, 0);
  const std::vector<float> whole = initial_values(qkv, 3);
  std::vector<float> pieces(whole.size(), -1.0F);
  constexpr std::int64_t kPiece = 977;  // odd, and no multiple of a row: cuts rows and views
  for (std::int64_t first = 0; first < qkv.num_elems(); first += kPiece) {
    init_elems(qkv, 3, first, pieces.data() + first, std::min(kPiece, qkv.num_elems() - first));
  }
  EXPECT_EQ(pieces, whole);
}

TEST(InitElems, LastProductsOfABranchStartSmallerByTheDepth) {
  const ParameterTable table(small_llama());
  const float expected = 0.01F;  // 0.02 / sqrt(2 * 2 layers)
  EXPECT_EQ(row_of(table, ParameterRole::kProjWeight, 0).init_std, expected);
  EXPECT_EQ(row_of(table, ParameterRole::kDownWeight, 0).init_std, expected);
  EXPECT_EQ(row_of(table, ParameterRole::kUpWeight, 0).init_std, 0.02F);
  EXPECT_EQ(row_of(table, ParameterRole::kTokenTable).init_std, 0.02F);
  EXPECT_EQ(row_of(ParameterTable(small_gpt2()), ParameterRole::kDownWeight, 0).init_std, expected);
}

TEST(InitElems, HaveTheStandardDeviationOfTheTable) {
  const ParameterTable table(small_llama());
  const Parameter& proj = row_of(table, ParameterRole::kProjWeight, 0);
  double sum_of_squares = 0;
  for (const float value : initial_values(proj, 1)) {
    sum_of_squares += std::pow(static_cast<double>(value), 2);
  }
  const auto num = static_cast<double>(proj.num_elems());
  const double relative = 5.0 * std::sqrt(2.0 / num);  // five standard errors of a variance
  EXPECT_NEAR(sum_of_squares / num / (0.01 * 0.01), 1.0, relative);
}

TEST(InitElems, NormsAreOneAndBiasesZero) {
  const ParameterTable table(small_gpt2());
  EXPECT_EQ(initial_values(row_of(table, ParameterRole::kAttnNormWeight, 0), 1),
            std::vector<float>(40, 1.0F));
  EXPECT_EQ(initial_values(row_of(table, ParameterRole::kAttnNormBias, 0), 1),
            std::vector<float>(40, 0.0F));
  EXPECT_EQ(initial_values(row_of(table, ParameterRole::kUpBias, 0), 1),
            std::vector<float>(56, 0.0F));
}

TEST(InitElems, ARangeOutsideTheParameterIsABug) {
  const ParameterTable table(small_llama());
  std::vector<float> values(2);
  EXPECT_THROW(init_elems(table.rows().front(), 1, 101 * 40 - 1, values.data(), 2), InternalError);
  EXPECT_THROW(init_elems(table.rows().front(), 1, -1, values.data(), 2), InternalError);
}

}  // namespace
}  // namespace trireme
