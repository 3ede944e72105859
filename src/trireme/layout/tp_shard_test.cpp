#include "trireme/layout/tp_shard.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

ModelSpec llama(std::int64_t kv_heads = 3) {
  return resolved({.layers = 1,
                   .hidden = 48,
                   .heads = 6,
                   .kv_heads = kv_heads,
                   .head_dim = 4,
                   .ffn = 12,
                   .vocab = 10,
                   .qkv_bias = true,
                   .qk_norm = true});
}

ModelSpec gpt2() {
  return resolved({.family = Family::kGpt2,
                   .layers = 1,
                   .hidden = 12,
                   .heads = 6,
                   .ffn = 18,
                   .vocab = 11,
                   .max_seq = 5});
}

Parameter row_of(const ModelSpec& spec, ParameterRole role, std::optional<std::int64_t> layer) {
  const ParameterTable table(spec);
  const auto index = table.find(role, layer);
  EXPECT_TRUE(index.has_value());
  return table.rows().at(static_cast<std::size_t>(index.value_or(0)));
}

/// How often each element of the parameter lies in the shard; checks that the shard is full.
std::vector<int> times_held(const Parameter& parameter, const ParameterShard& shard) {
  std::vector<int> times(static_cast<std::size_t>(parameter.num_elems()));
  std::int64_t shard_row = 0;
  for (const ShardBlock& block : shard.blocks) {
    EXPECT_EQ(block.shard_row, shard_row);
    EXPECT_EQ(block.num_columns, shard.num_columns);
    shard_row += block.num_rows;
    for (std::int64_t r = block.first_row; r < block.first_row + block.num_rows; ++r) {
      for (std::int64_t c = block.first_column; c < block.first_column + block.num_columns; ++c) {
        ++times.at(static_cast<std::size_t>(r * parameter.row_elems() + c));
      }
    }
  }
  EXPECT_EQ(shard_row, shard.num_rows);
  return times;
}

struct Case {
  std::string name;
  ModelSpec spec;
  int tp;
};

class TpShardOf : public testing::TestWithParam<Case> {};

TEST_P(TpShardOf, CutParametersAreHeldOnceByAllRanksTogether) {
  const auto& [name, spec, tp] = GetParam();
  for (const Parameter& parameter : ParameterTable(spec).rows()) {
    if (!is_cut(parameter.tp_sharding)) continue;
    SCOPED_TRACE(parameter.name);
    std::vector<int> times(static_cast<std::size_t>(parameter.num_elems()));
    for (int rank = 0; rank < tp; ++rank) {
      const auto held = times_held(parameter, tp_shard(spec, parameter, tp, rank));
      for (std::size_t i = 0; i < times.size(); ++i) times[i] += held[i];
    }
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  }
}

TEST_P(TpShardOf, OtherParametersAreHeldWholeByEachRank) {
  const auto& [name, spec, tp] = GetParam();
  for (const Parameter& parameter : ParameterTable(spec).rows()) {
    if (is_cut(parameter.tp_sharding)) continue;
    SCOPED_TRACE(parameter.name);
    for (int rank = 0; rank < tp; ++rank) {
      const auto held = times_held(parameter, tp_shard(spec, parameter, tp, rank));
      EXPECT_EQ(held, std::vector<int>(held.size(), 1));
    }
  }
}

TEST_P(TpShardOf, ShapesAreThoseOfTheLocalSpec) {
  const ModelSpec& spec = GetParam().spec;
  const int tp = GetParam().tp;
  for (int rank = 0; rank < tp; ++rank) {
    const ModelSpec local = tp_local_spec(spec, tp, rank);
    const auto shard = [&](ParameterRole role, std::optional<std::int64_t> layer) {
      return tp_shard(spec, row_of(spec, role, layer), tp, rank);
    };
    EXPECT_EQ(shard(ParameterRole::kTokenTable, {}).num_rows, local.vocab);
    EXPECT_EQ(shard(ParameterRole::kQkvWeight, 0).num_rows, local.qkv_width());
    EXPECT_EQ(shard(ParameterRole::kQkvBias, 0).num_rows, local.qkv_width());
    EXPECT_EQ(shard(ParameterRole::kProjWeight, 0).num_columns, local.q_width());
    EXPECT_EQ(shard(ParameterRole::kUpWeight, 0).num_rows, local.up_width());
    EXPECT_EQ(shard(ParameterRole::kDownWeight, 0).num_columns, local.ffn);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TpShardOf,
                         testing::Values(Case{"llama_tp1", llama(), 1},
                                         Case{"llama_tp2", llama(2), 2},
                                         Case{"llama_tp3", llama(), 3}, Case{"gpt2_tp1", gpt2(), 1},
                                         Case{"gpt2_tp2", gpt2(), 2}, Case{"gpt2_tp3", gpt2(), 3}),
                         [](const auto& test) { return test.param.name; });

TEST(TpShard, CutsQAndKAndVOnTheirOwn) {
  const Parameter qkv = row_of(llama(), ParameterRole::kQkvWeight, 0);
  const ParameterShard shard = tp_shard(llama(), qkv, 3, 1);
  EXPECT_EQ(shard.num_rows, 16);
  EXPECT_EQ(shard.num_columns, 48);
  EXPECT_EQ(shard.num_elems(), 768);
  EXPECT_EQ(shard.blocks,
            (std::vector<ShardBlock>{
                {.first_row = 8, .num_rows = 8, .num_columns = 48, .shard_row = 0},
                {.first_row = 28, .num_rows = 4, .num_columns = 48, .shard_row = 8},
                {.first_row = 40, .num_rows = 4, .num_columns = 48, .shard_row = 12}}));
}

TEST(TpShard, CutsTheOneViewOfGpt2AtItsQAndKAndV) {
  const Parameter qkv_bias = row_of(gpt2(), ParameterRole::kQkvBias, 0);
  EXPECT_EQ(tp_shard(gpt2(), qkv_bias, 2, 1).blocks,
            (std::vector<ShardBlock>{
                {.first_row = 6, .num_rows = 6, .num_columns = 1, .shard_row = 0},
                {.first_row = 18, .num_rows = 6, .num_columns = 1, .shard_row = 6},
                {.first_row = 30, .num_rows = 6, .num_columns = 1, .shard_row = 12}}));
}

TEST(TpShard, CutsGateAndUpOnTheirOwn) {
  const Parameter up = row_of(llama(), ParameterRole::kUpWeight, 0);
  EXPECT_EQ(tp_shard(llama(), up, 3, 2).blocks,
            (std::vector<ShardBlock>{
                {.first_row = 8, .num_rows = 4, .num_columns = 48, .shard_row = 0},
                {.first_row = 20, .num_rows = 4, .num_columns = 48, .shard_row = 4}}));
}

TEST(TpShard, CutsTheVocabularyAsEvenlyAsCanBe) {
  EXPECT_EQ(first_vocab_row(llama(), 3, 0), 0);
  EXPECT_EQ(first_vocab_row(llama(), 3, 1), 3);
  EXPECT_EQ(first_vocab_row(llama(), 3, 2), 6);
  EXPECT_EQ(first_vocab_row(llama(), 3, 3), 10);
  const Parameter head = row_of(llama(), ParameterRole::kHeadWeight, {});
  EXPECT_EQ(tp_shard(llama(), head, 3, 2).blocks,
            (std::vector<ShardBlock>{{.first_row = 6, .num_rows = 4, .num_columns = 48}}));
}

TEST(TpShard, ARankThatIsNotInTheGroupIsABug) {
  const Parameter head = row_of(llama(), ParameterRole::kHeadWeight, {});
  EXPECT_THROW(static_cast<void>(tp_shard(llama(), head, 3, 3)), InternalError);
  EXPECT_THROW(static_cast<void>(tp_shard(llama(), head, 3, -1)), InternalError);
}

TEST(TpShard, HeadsThatDoNotDivideAreABug) {
  EXPECT_THROW(static_cast<void>(tp_local_spec(llama(), 2, 0)), InternalError);
}

}  // namespace
}  // namespace trireme
