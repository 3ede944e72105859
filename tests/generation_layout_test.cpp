// One rank against every layout: logits and tokens of generation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout_models.h"
#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/execute/generator.h"
#include "trireme/train/model_state.h"

namespace trireme {
namespace {

using namespace layout_models;  // NOLINT(google-build-using-namespace)

using Logits = std::vector<float>;
using Tokens = std::vector<std::int32_t>;

/// A function of the tensor's name: around 1 for norms, so that no layer dies, and noise for the
/// rest, so that biases count and attention is not uniform.
std::vector<float> random_tensor(const TensorSpec& spec) {
  std::int64_t count = 1;
  for (const std::int64_t extent : spec.shape) count *= extent;
  const bool is_norm = spec.shape.size() == 1 && spec.name.ends_with("weight");
  const std::uint64_t key = philox_key(3, spec.name);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back((is_norm ? 1.0F : 0.0F) +
                     0.2F * philox_normal(key, static_cast<std::uint64_t>(i)));
  }
  return values;
}

Generator generator_of(const std::string& model, const Layout& layout) {
  Generator generator(spec_of(model), layout, {});
  generator.on_ranks([](const Program& program, RankExecutor& executor) {
    ModelState state(program, executor, 0);
    for (const StateTensor& tensor : state.tensors(StateKind::kParameter, "", "")) {
      state.store(tensor, random_tensor(state.spec_of(tensor)));
    }
  });
  return generator;
}

/// Of a prefill of 5 tokens and of 10 tokens more.
std::vector<Logits> some_logits(Generator& generator) {
  const Tokens prompt = {3, 10, 17, 30, 0}, more = {1, 8, 30, 22, 0, 5, 12, 19, 26, 2};
  std::vector<Logits> all;
  const auto add = [&](std::span<const float> logits) {
    all.emplace_back(logits.begin(), logits.end());
  };
  add(generator.prefill(prompt));
  for (const std::int32_t token : more) add(generator.decode(token));
  return all;
}

/// Longer than the context, so that its newer half is prefilled.
Tokens greedy_tokens(Generator& generator) {
  Tokens tokens;
  generator.generate(Tokens{3, 10, 17}, 20, {.temperature = 0}, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

Generator& one_rank(const std::string& model) {
  static std::map<std::string, Generator> generators;
  const auto found = generators.find(model);
  if (found != generators.end()) return found->second;
  return generators.emplace(model, generator_of(model, {})).first->second;
}

/// Largest difference of two logits, in units of the largest logit.
float relative_error(const Logits& logits, const Logits& expected) {
  float scale = 0, error = 0;
  for (std::size_t v = 0; v < expected.size(); ++v) {
    scale = std::max(scale, std::abs(expected[v]));
    error = std::max(error, std::abs(logits[v] - expected[v]));
  }
  return error / scale;
}

class GenerationLayout : public testing::TestWithParam<Case> {
 protected:
  GenerationLayout() : generator_(generator_of(GetParam().model, layout())) {}

  static Layout layout() {
    Layout layout;
    Batch batch;
    parse_layout_text(GetParam().layout, layout, batch);
    return layout;
  }

  Generator generator_;
};

TEST_P(GenerationLayout, LogitsEqualThoseOfOneRank) {
  const std::vector<Logits> expected = some_logits(one_rank(GetParam().model));
  const std::vector<Logits> logits = some_logits(generator_);
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(logits[i].size(), expected[i].size());
    if (layout().tp == 1) {
      EXPECT_EQ(logits[i], expected[i]);
    } else {
      EXPECT_LE(relative_error(logits[i], expected[i]), 1e-5F);
    }
  }
}

TEST_P(GenerationLayout, GreedyTokensEqualThoseOfOneRank) {
  EXPECT_EQ(greedy_tokens(generator_), greedy_tokens(one_rank(GetParam().model)));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* const model : {"llama", "qwen", "gpt2"}) {
    for (const char* const layout :
         {"pp=2", "pp=4", "pp=3 stages=0,3,1", "pp=2 schedule=interleaved:2",
          "pp=2 schedule=breadth-first:2", "pp=2 schedule=zb-v", "pp=2 schedule=dualpipe",
          "pp=4 schedule=dualpipe", "tp=2", "tp=4", "tp=2 sp=1 zero=1 recompute=full", "pp=2 tp=2",
          "pp=2 tp=4 schedule=interleaved:2", "pp=2 tp=2 schedule=zb-v"}) {
      all.push_back({layout, model});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GenerationLayout, testing::ValuesIn(cases()), case_name);

TEST(Generation, RefusesReplicas) {
  EXPECT_THROW(Generator(llama(), {.dp = 2}, {}), UsageError);
}

TEST(Generation, FailureOfOneRankIsTheCallersAndLasts) {
  Generator generator = generator_of("llama", {.pp = 2, .tp = 2});
  const auto fail_on_third = [](const Program& program, RankExecutor&) {
    if (program.request.rank == 2) throw ResourceError("the third rank's weights are damaged");
  };
  EXPECT_THROW(generator.on_ranks(fail_on_third), ResourceError);
  EXPECT_THROW(static_cast<void>(generator.prefill(Tokens{1, 2})), ResourceError);
}

}  // namespace
}  // namespace trireme
