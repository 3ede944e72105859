#include "trireme/model/spec.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

ModelSpec small_llama() {
  return {.layers = 2, .hidden = 64, .heads = 4, .ffn = 128, .vocab = 256};
}

ModelSpec small_gpt2() {
  return {
      .family = Family::kGpt2, .layers = 2, .hidden = 64, .heads = 4, .vocab = 256, .max_seq = 32};
}

std::string refusal(const ModelSpec& spec) {
  try {
    static_cast<void>(resolved(spec));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

template <typename Value>
std::string refusal(ModelSpec spec, Value ModelSpec::*field, Value value) {
  spec.*field = value;
  return refusal(spec);
}

TEST(ResolvedSpec, DerivesKeyValueHeadsAndHeadSize) {
  const ModelSpec spec = resolved(small_llama());
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 16);
}

TEST(ResolvedSpec, KeepsAHeadSizeThatIsNotHiddenOverHeads) {
  ModelSpec spec = small_llama();
  spec.head_dim = 32;
  EXPECT_EQ(resolved(spec).q_width(), 128);
}

TEST(ResolvedSpec, Gpt2IsTiedWithFourTimesTheWidth) {
  const ModelSpec spec = resolved(small_gpt2());
  EXPECT_TRUE(spec.tied);
  EXPECT_EQ(spec.ffn, 256);
}

TEST(ResolvedSpec, ResolvesToItself) {
  EXPECT_EQ(resolved(resolved(small_llama())), resolved(small_llama()));
  EXPECT_EQ(resolved(resolved(small_gpt2())), resolved(small_gpt2()));
}

TEST(ResolvedSpec, RefusesSizesThatAreNotPositive) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::heads, std::int64_t{0}),
            "[model] heads = 0: must be from 1 to 2147483647; use 1");
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::layers, std::int64_t{-1}),
            "[model] layers = -1: must be from 1 to 16384; use 1");
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::ffn, std::int64_t{0}),
            "[model] ffn = 0: must be from 1 to 2147483647; use 1");
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::max_seq, std::int64_t{0}),
            "[model] max_seq = 0: must be from 1 to 2147483647; use 1");
}

TEST(ResolvedSpec, RefusesNegativeSizesThatMayBeDerived) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::head_dim, std::int64_t{-16}),
            "[model] head_dim = -16: must be from 0 to 2147483647; use 0");
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::kv_heads, std::int64_t{-1}),
            "[model] kv_heads = -1: must be from 0 to 4; use 0");
}

TEST(ResolvedSpec, RefusesMoreKeyValueHeadsThanHeads) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::kv_heads, std::int64_t{8}),
            "[model] kv_heads = 8: must be from 0 to 4; use 4");
}

TEST(ResolvedSpec, RefusesDropoutOutsideZeroToOne) {
  const std::string rule = ": must be at least 0 and below 1; use 0 to switch it off";
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::dropout, 1.5), "[model] dropout = 1.5" + rule);
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::dropout, 1.0), "[model] dropout = 1" + rule);
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::dropout, -0.1), "[model] dropout = -0.1" + rule);
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::dropout, std::nan("")),
            "[model] dropout = nan" + rule);
}

TEST(ResolvedSpec, RefusesRealsThatAreNotPositiveAndFinite) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::rope_base, 0.0),
            "[model] rope_base = 0: must be a finite number above 0; use 10000");
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::norm_eps, std::numeric_limits<double>::infinity()),
            "[model] norm_eps = inf: must be a finite number above 0; use 1e-5");
}

TEST(ResolvedSpec, NamesTheNearestWidthsThatHeadsDivide) {
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::hidden, std::int64_t{66}),
            "[model] hidden = 66 with heads = 4: heads must divide hidden when head_dim is not "
            "set; use hidden = 64 or 68, or set head_dim");
}

TEST(ResolvedSpec, TheNearestWidthsOfALlamaHaveEvenHeads) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::hidden, std::int64_t{66}),
            "[model] hidden = 66 with heads = 4: heads must divide hidden when head_dim is not "
            "set; use hidden = 64 or 72, or set head_dim");
}

TEST(ResolvedSpec, NamesTheNearestKeyValueHeadsThatDivideHeads) {
  ModelSpec spec = small_llama();
  spec.heads = 6;
  spec.head_dim = 8;
  spec.kv_heads = 4;
  EXPECT_EQ(
      refusal(spec),
      "[model] kv_heads = 4 with heads = 6: kv_heads must divide heads; use kv_heads = 3 or 6");
}

TEST(ResolvedSpec, RefusesOddHeadsUnderRope) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::head_dim, std::int64_t{5}),
            "[model] head_dim = 5 (hidden = 64, heads = 4): RoPE rotates pairs of channels, so "
            "head_dim must be even; use head_dim = 4 or 6");
}

TEST(ResolvedSpec, AcceptsOddHeadsWithoutRope) {
  ModelSpec spec = small_gpt2();
  spec.hidden = 20;
  EXPECT_EQ(resolved(spec).head_dim, 5);
}

TEST(ResolvedSpec, RefusesDropoutInALlama) {
  EXPECT_EQ(refusal(small_llama(), &ModelSpec::dropout, 0.1),
            "[model] dropout = 0.1 with family = llama: only gpt2 has dropout; use dropout = 0");
}

TEST(ResolvedSpec, RefusesLlamaSwitchesInAGpt2) {
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::qk_norm, true),
            "[model] qk_norm = true with family = gpt2: only the llama family has it; use qk_norm "
            "= false");
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::qkv_bias, true),
            "[model] qkv_bias = true with family = gpt2: gpt2 always has biases, this switch is "
            "llama's; leave it out");
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::rope_base, 500000.0),
            "[model] rope_base = 500000 with family = gpt2: gpt2 learns its positions, without "
            "RoPE; leave it out");
}

TEST(ResolvedSpec, RefusesGroupedQueriesAndOddWidthsInAGpt2) {
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::kv_heads, std::int64_t{2}),
            "[model] kv_heads = 2 with family = gpt2: gpt2 has as many key/value heads as heads; "
            "use kv_heads = 4");
  EXPECT_EQ(refusal(small_gpt2(), &ModelSpec::head_dim, std::int64_t{8}),
            "[model] head_dim = 8 with family = gpt2: heads * head_dim = 32 must equal hidden = "
            "64; leave head_dim out");
}

TEST(ResolvedSpec, RefusesAModelWhoseSizeOverflows) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_NE(
      refusal({.layers = 1, .hidden = most, .heads = 1, .head_dim = 2, .ffn = 1, .vocab = most})
          .find("parameters; at most 2.9e+17 are possible, make a size smaller"),
      std::string::npos);
  EXPECT_NE(refusal({.layers = 16384,
                     .hidden = most,
                     .heads = most,
                     .head_dim = most - 1,
                     .ffn = most,
                     .vocab = most}),
            "");
  EXPECT_NE(refusal(small_llama(), &ModelSpec::hidden, std::numeric_limits<std::int64_t>::max()),
            "");
}

}  // namespace
}  // namespace trireme
