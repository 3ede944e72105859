// Generation under every layout: the programs of all ranks, and which rank caches what.
#include <algorithm>
#include <cctype>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/place.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

constexpr std::int64_t kLayers = 8, kMaxSeq = 10, kVocab = 31, kFloatBytes = 4;

/// Heads and ffn divide by 2, 3 and 4; vocab by none of them.
ModelSpec llama() {
  return resolved({.family = Family::kLlama,
                   .layers = kLayers,
                   .hidden = 20,
                   .heads = 24,
                   .kv_heads = 12,
                   .head_dim = 2,
                   .ffn = 36,
                   .vocab = kVocab,
                   .max_seq = kMaxSeq});
}
ModelSpec qwen() {
  ModelSpec spec = llama();
  spec.tied = true;
  spec.qkv_bias = true;
  spec.qk_norm = true;
  return resolved(spec);
}
ModelSpec gpt2() {
  return resolved({.family = Family::kGpt2,
                   .layers = kLayers,
                   .hidden = 24,
                   .heads = 12,
                   .vocab = kVocab,
                   .max_seq = kMaxSeq,
                   .dropout = 0.1});
}

struct Case {
  std::string layout;  ///< layout text
  std::string model;   ///< "llama", "qwen" or "gpt2"
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.model << " " << test.layout;
}

std::vector<Program> programs_of(Program (*build)(const BuildRequest&), const Case& of) {
  BuildRequest request{.spec = of.model == "llama"  ? llama()
                               : of.model == "qwen" ? qwen()
                                                    : gpt2(),
                       .layout = {},
                       .batch = {.seq = kMaxSeq}};
  parse_layout_text(of.layout, request.layout, request.batch);
  return all_ranks(request, build);
}

class GenerationPrograms : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] const BuildRequest& request() const { return prefill_.front().request; }
  [[nodiscard]] int pp_of(std::size_t rank) const {
    return request().layout.mesh().coord_of(static_cast<int>(rank)).pp;
  }

  const std::vector<Program> prefill_ = programs_of(build_prefill, GetParam());  ///< by rank
  const std::vector<Program> decode_ = programs_of(build_decode, GetParam());
};

/// Violation text, or "" for none.
TEST_P(GenerationPrograms, OfAllRanksVerify) {
  EXPECT_EQ(fault(verify(prefill_)), "");
  EXPECT_EQ(fault(verify(decode_)), "");
}

TEST_P(GenerationPrograms, ShareTheArenaOfTheirRank) {
  for (std::size_t rank = 0; rank < prefill_.size(); ++rank) {
    SCOPED_TRACE(rank);
    const std::vector<const Program*> both = {&prefill_[rank], &decode_[rank]};
    EXPECT_EQ(fault(verify_placement(both, place(both))), "");
  }
}

TEST_P(GenerationPrograms, CacheEachLayerOnOneStageAndEachHeadOnce) {
  const std::int64_t all_heads_bytes = kMaxSeq * request().spec.kv_width() * kFloatBytes;
  const std::int64_t own_heads_bytes = all_heads_bytes / request().layout.tp;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (const char* const tensor : {"k", "v"}) {
      const std::string name = "cache.L" + std::to_string(layer) + "." + tensor;
      SCOPED_TRACE(name);
      std::set<int> stages;
      int num_ranks = 0;
      for (std::size_t rank = 0; rank < decode_.size(); ++rank) {
        const std::optional<BufferId> cache = decode_[rank].find_buffer(name);
        EXPECT_EQ(prefill_[rank].find_buffer(name).has_value(), cache.has_value());
        if (!cache) continue;
        EXPECT_EQ(decode_[rank].buffer(*cache).bytes, own_heads_bytes);
        stages.insert(pp_of(rank));
        ++num_ranks;
      }
      EXPECT_EQ(stages.size(), 1U);
      EXPECT_EQ(num_ranks, request().layout.tp);
    }
  }
}

TEST_P(GenerationPrograms, GiveAllLogitsToEachRankOfTheLastStage) {
  std::set<int> stages;
  int num_ranks = 0;
  for (std::size_t rank = 0; rank < decode_.size(); ++rank) {
    const std::optional<BufferId> logits = decode_[rank].find_buffer("logits");
    EXPECT_EQ(prefill_[rank].find_buffer("logits").has_value(), logits.has_value());
    if (!logits) continue;
    EXPECT_EQ(decode_[rank].buffer(*logits).bytes, kVocab * kFloatBytes);
    stages.insert(pp_of(rank));
    ++num_ranks;
  }
  EXPECT_EQ(stages.size(), 1U);
  EXPECT_EQ(num_ranks, request().layout.tp);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* const model : {"llama", "qwen", "gpt2"}) {
    for (const char* const layout : {"pp=1",
                                     "tp=2",
                                     "tp=3",
                                     "tp=4",
                                     "tp=2 sp=1",
                                     "pp=2",
                                     "pp=3",
                                     "pp=4",
                                     "pp=8",
                                     "pp=3 stages=0,5,3",
                                     "pp=2 stages=8,0",
                                     "pp=2 schedule=interleaved:2",
                                     "pp=2 schedule=interleaved:4",
                                     "pp=4 schedule=interleaved:2",
                                     "pp=2 schedule=breadth-first:2",
                                     "pp=3 schedule=zb-h1",
                                     "pp=4 schedule=zb-h2",
                                     "pp=2 schedule=zb-v",
                                     "pp=3 schedule=zb-v",
                                     "pp=4 schedule=zb-v",
                                     "pp=4 schedule=dualpipe-v",
                                     "pp=2 schedule=dualpipe",
                                     "pp=4 schedule=dualpipe",
                                     "pp=2 tp=2",
                                     "pp=3 tp=3 recompute=full",
                                     "pp=4 tp=2 sp=1 schedule=zb-v",
                                     "pp=2 tp=4 schedule=interleaved:2",
                                     "pp=4 tp=2 schedule=dualpipe",
                                     "pp=2 tp=2 stages=0,8"}) {
      all.push_back({layout, model});
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model + "_" + info.param.layout;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GenerationPrograms, testing::ValuesIn(cases()), case_name);

TEST(DecodePrograms, WithoutTheSumOfTheLogitsAreRefused) {
  std::vector<Program> programs = programs_of(build_decode, {"pp=2 tp=2", "llama"});
  for (Program& program : programs) {
    const std::optional<BufferId> logits = program.find_buffer("logits");
    for (Template& item : program.templates) {
      std::erase_if(item.instructions, [&](const Instruction& instruction) {
        return instruction.comm && logits && instruction.uses.front().range.buffer == *logits;
      });
    }
  }
  const std::optional<Violation> violation = verify(programs);
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->rule, "V16") << violation->message;
}

}  // namespace
}  // namespace trireme
