#include "trireme/execute/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/model/parameters.h"

namespace trireme {
namespace {

using Tokens = std::vector<std::int32_t>;

ModelSpec grouped_llama() {
  return resolved({.family = Family::kLlama,
                   .layers = 2,
                   .hidden = 24,
                   .heads = 6,
                   .kv_heads = 2,
                   .head_dim = 8,
                   .ffn = 40,
                   .vocab = 29,
                   .max_seq = 12,
                   .qkv_bias = true,
                   .qk_norm = true});
}

ModelSpec small_gpt2() {
  return resolved({.family = Family::kGpt2,
                   .layers = 2,
                   .hidden = 24,
                   .heads = 3,
                   .vocab = 29,
                   .max_seq = 12,
                   .dropout = 0.1});
}

/// On one rank: initial values plus noise everywhere, so that biases count and attention is not
/// uniform.
void fill(Generator& generator) {
  generator.on_ranks([](const Program& program, RankExecutor& executor) {
    const ParameterTable table(program.request.spec);
    for (std::size_t row = 0; row < program.parameters.size(); ++row) {
      const auto values = executor.values<float>(0, program.parameters[row].parameter);
      init_elems(table.rows()[row], 1, 0, values.data(), std::ssize(values));
      const std::uint64_t key = philox_key(2, table.rows()[row].name);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.2F * philox_normal(key, i);
    }
  });
}

Tokens some_tokens(std::size_t count) {
  Tokens tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>((7 * i + 3) % 29));
  }
  return tokens;
}

std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

/// The two sides differ in the order of additions alone. Each of the 4 L + 1 products in a row adds
/// up to k terms, each side off by at most eps * sqrt(k) of the result's scale (random signs); a
/// factor of 4 is left for norms and softmax, which are of length hidden or shorter.
float tolerance(const ModelSpec& spec, const std::vector<float>& logits) {
  float scale = 0;
  for (const float logit : logits) scale = std::max(scale, std::abs(logit));
  const auto products = static_cast<float>(4 * spec.layers + 1);
  const auto widest = static_cast<float>(std::max(spec.ffn, spec.hidden));
  return 4 * 2 * std::numeric_limits<float>::epsilon() * products * std::sqrt(widest) * scale;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t v = 0; v < got.size(); ++v) {
    EXPECT_NEAR(got[v], expected[v], tolerance) << "token " << v;
  }
}

class GeneratorTest : public testing::TestWithParam<ModelSpec> {
 protected:
  GeneratorTest() : generator_(GetParam(), {}, {}) { fill(generator_); }
  Generator generator_;
};

std::string family(const testing::TestParamInfo<ModelSpec>& param) {
  return std::string(family_name(param.param.family));
}

INSTANTIATE_TEST_SUITE_P(Families, GeneratorTest, testing::Values(grouped_llama(), small_gpt2()),
                         family);

TEST_P(GeneratorTest, DecodingEqualsAPrefillOfTheLongerSequence) {
  const Tokens tokens = some_tokens(12);
  static_cast<void>(generator_.prefill(std::span(tokens).first(5)));
  std::vector<std::vector<float>> decoded;
  for (std::size_t i = 5; i < 12; ++i) decoded.push_back(copy(generator_.decode(tokens[i])));
  for (std::size_t i = 5; i < 12; ++i) {
    SCOPED_TRACE(i);
    const auto expected = copy(generator_.prefill(std::span(tokens).first(i + 1)));
    expect_near(decoded[i - 5], expected, tolerance(GetParam(), expected));
  }
}

TEST_P(GeneratorTest, EarlierTokensMatter) {
  Tokens tokens = some_tokens(6);
  const auto logits = copy(generator_.prefill(tokens));
  std::swap(tokens[0], tokens[1]);
  const auto swapped = copy(generator_.prefill(tokens));
  float largest = 0;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    largest = std::max(largest, std::abs(logits[v] - swapped[v]));
  }
  EXPECT_GT(largest, 10 * tolerance(GetParam(), logits));
}

TEST_P(GeneratorTest, OldCachesDoNotMatter) {
  const Tokens tokens = some_tokens(4);
  static_cast<void>(generator_.prefill(tokens));
  const auto fresh = copy(generator_.decode(9));
  static_cast<void>(generator_.prefill(some_tokens(12)));
  static_cast<void>(generator_.prefill(tokens));
  EXPECT_EQ(copy(generator_.decode(9)), fresh);
}

Tokens generated(Generator& generator, const Tokens& prompt, std::int64_t count,
                 const SamplingOptions& options) {
  Tokens tokens;
  generator.generate(prompt, count, options, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

TEST_P(GeneratorTest, GreedyTextIsTheSameTwice) {
  const SamplingOptions greedy{.temperature = 0};
  const Tokens first = generated(generator_, some_tokens(3), 9, greedy);
  EXPECT_EQ(first.size(), 9U);
  EXPECT_EQ(generated(generator_, some_tokens(3), 9, greedy), first);
}

TEST_P(GeneratorTest, SampledTextDependsOnTheSeed) {
  const Tokens first = generated(generator_, some_tokens(3), 9, {.seed = 1});
  EXPECT_EQ(generated(generator_, some_tokens(3), 9, {.seed = 1}), first);
  EXPECT_NE(generated(generator_, some_tokens(3), 9, {.seed = 2}), first);
}

TEST_P(GeneratorTest, FullContextKeepsItsNewerHalf) {
  const SamplingOptions greedy{.temperature = 0};
  const Tokens prompt = some_tokens(12);
  const Tokens tokens = generated(generator_, prompt, 2, greedy);
  Tokens context(prompt.begin() + 6, prompt.end());
  context.push_back(tokens[0]);
  const auto logits = copy(generator_.prefill(context));
  EXPECT_EQ(tokens[1], sample_token(logits, greedy, 1));
}

TEST_P(GeneratorTest, TextOutgrowsTheContext) {
  const Tokens tokens = generated(generator_, some_tokens(30), 40, {.seed = 3});
  EXPECT_EQ(tokens.size(), 40U);
}

TEST_P(GeneratorTest, CallerMayStop) {
  int count = 0;
  generator_.generate(some_tokens(3), 9, {}, [&](std::int32_t) { return ++count < 4; });
  EXPECT_EQ(count, 4);
}

TEST_P(GeneratorTest, FullContextRefusesAnotherToken) {
  static_cast<void>(generator_.prefill(some_tokens(12)));
  EXPECT_THROW(static_cast<void>(generator_.decode(1)), UsageError);
}

TEST_P(GeneratorTest, TokenBeyondTheVocabularyIsRefused) {
  EXPECT_THROW(static_cast<void>(generator_.prefill(Tokens{1, 29})), UsageError);
}

TEST_P(GeneratorTest, EmptyPromptIsRefused) {
  EXPECT_THROW(static_cast<void>(generator_.prefill({})), UsageError);
}

TEST(Generator, DecodingNeedsAPrefill) {
  Generator generator(grouped_llama(), {}, {});
  EXPECT_THROW(static_cast<void>(generator.decode(1)), UsageError);
}

TEST(Generator, ModelWithoutContextIsRefused) {
  ModelSpec spec = grouped_llama();
  spec.max_seq = 0;
  EXPECT_THROW(Generator(spec, {}, {}), UsageError);
}

TEST(SampleToken, TemperatureZeroTakesTheMostLikely) {
  EXPECT_EQ(sample_token(std::vector<float>{1, 5, 2, 5}, {.temperature = 0}, 0), 1);
}

TEST(SampleToken, TopOneTakesTheMostLikely) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(sample_token(std::vector<float>{1, 2, 3, 2}, {.top_k = 1}, i), 2);
  }
}

TEST(SampleToken, TopKLeavesOutTheRest) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::int32_t token =
        sample_token(std::vector<float>{0.1F, 0.4F, 0.2F, 0.3F}, {.top_k = 2}, i);
    EXPECT_TRUE(token == 1 || token == 3) << token;
  }
}

TEST(SampleToken, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.2F), std::log(0.7F)};
  constexpr int kDraws = 20000;
  std::array<int, 3> counts{};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    ++counts.at(static_cast<std::size_t>(sample_token(logits, {.seed = 5}, i)));
  }
  const std::array<double, 3> expected = {0.1, 0.2, 0.7};
  for (std::size_t token = 0; token < 3; ++token) {
    const double p = expected.at(token);
    const double five_sigma = 5 * std::sqrt(kDraws * p * (1 - p));
    EXPECT_NEAR(counts.at(token), kDraws * p, five_sigma) << "token " << token;
  }
}

TEST(SampleToken, LowTemperatureSharpens) {
  const std::vector<float> logits = {0, 1};
  int cold = 0, warm = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    cold += sample_token(logits, {.temperature = 0.25}, i);
    warm += sample_token(logits, {.temperature = 1}, i);
  }
  EXPECT_GT(cold, warm);  // 982 and 731 are expected
}

TEST(SampleToken, NegativeTemperatureIsRefused) {
  EXPECT_THROW(static_cast<void>(sample_token(std::vector<float>{1}, {.temperature = -1}, 0)),
               UsageError);
}

TEST(SampleToken, NegativeTopKIsRefused) {
  EXPECT_THROW(static_cast<void>(sample_token(std::vector<float>{1}, {.top_k = -1}, 0)),
               UsageError);
}

TEST(SampleToken, LogitsThatAreNotFiniteAreRefused) {
  EXPECT_THROW(static_cast<void>(sample_token(std::vector<float>{1, NAN}, {}, 0)), ResourceError);
}

}  // namespace
}  // namespace trireme
