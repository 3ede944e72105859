// One rank against every layout: loss, gradient norm, gradients and weights.
#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "step_harness.h"

namespace trireme {
namespace {

/// Every size divides by 4, for tensor parallelism; grouped heads; no two sizes alike.
ModelSpec llama() {
  return resolved({.family = Family::kLlama,
                   .layers = 4,
                   .hidden = 24,
                   .heads = 8,
                   .kv_heads = 4,
                   .head_dim = 6,
                   .ffn = 36,
                   .vocab = 31,
                   .max_seq = 16});
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
                   .layers = 4,
                   .hidden = 24,
                   .heads = 4,
                   .vocab = 31,
                   .max_seq = 16,
                   .tied = true,
                   .dropout = 0.1});
}

constexpr Batch kBatch{.seq = 12, .micro_batch = 1, .global_batch = 16};
const HarnessOptions kOptions{.steps = 5, .eval_every = 5};

struct Case {
  std::string layout;  ///< layout text
  std::string model;   ///< "llama", "qwen" or "gpt2"
  bool is_bitwise = false;
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.model << " " << test.layout;
}

ModelSpec spec_of(const std::string& model) {
  return model == "llama" ? llama() : model == "qwen" ? qwen() : gpt2();
}

/// GPT-2's key biases have no gradient but rounding (softmax ignores a constant), which AdamW turns
/// into steps.
NamedTensors without_key_bias(NamedTensors tensors) {
  for (auto& [name, values] : tensors) {
    if (!name.ends_with("attn.c_attn.bias")) continue;
    const auto third = static_cast<std::ptrdiff_t>(values.size() / 3);
    values.erase(values.begin() + third, values.begin() + 2 * third);
  }
  return tensors;
}

const HarnessResult& reference(const std::string& model, std::int64_t micro_batch) {
  static std::map<std::pair<std::string, std::int64_t>, HarnessResult> results;
  auto& result = results[{model, micro_batch}];
  if (result.losses.empty()) {
    Batch batch = kBatch;
    batch.micro_batch = micro_batch;
    result = run_steps(spec_of(model), {}, batch, kOptions);
  }
  return result;
}

/// Largest difference of two elements, and its tensor.
TensorError largest_change(const NamedTensors& value, const NamedTensors& reference) {
  TensorError worst;
  for (const auto& [name, expected] : reference) {
    const std::vector<float>& found = value.at(name);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error =
          std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
      if (!(error <= worst.error)) worst = {.error = error, .name = name};
    }
  }
  return worst;
}

void expect_equal_bits(const HarnessResult& run, const HarnessResult& due) {
  EXPECT_EQ(run.losses, due.losses);
  EXPECT_EQ(run.grad_norms, due.grad_norms);
  EXPECT_EQ(run.eval_losses, due.eval_losses);
  EXPECT_EQ(first_difference(run.first_gradients, due.first_gradients), "");
  EXPECT_EQ(first_difference(run.weights, due.weights), "");
  EXPECT_EQ(first_difference(run.moments, due.moments), "");
}

/// The bound grows with the depth of the model, as rounding does: 4e-6 a layer for gradients.
void expect_equal_to_rounding(const HarnessResult& run, const HarnessResult& due,
                              std::int64_t num_layers) {
  const double bound = 4e-6 * static_cast<double>(num_layers);
  ASSERT_EQ(run.losses.size(), due.losses.size());
  for (std::size_t i = 0; i < due.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], due.losses[i], bound * due.losses[i]);
    EXPECT_NEAR(run.grad_norms[i], due.grad_norms[i], 10 * bound * due.grad_norms[i]);
  }
  for (std::size_t i = 0; i < due.eval_losses.size(); ++i)
    EXPECT_NEAR(run.eval_losses[i], due.eval_losses[i], bound * due.eval_losses[i]);
  const TensorError gradients = largest_error(run.first_gradients, due.first_gradients);
  EXPECT_LE(gradients.error, bound) << gradients.name;
  // AdamW divides a gradient by its own size: where it is near zero, its rounding is part of a
  // step.
  const double way = kOptions.lr * kOptions.steps;
  const TensorError weights =
      largest_change(without_key_bias(run.weights), without_key_bias(due.weights));
  EXPECT_LE(weights.error, 0.005 * way) << weights.name;
}

class LayoutParity : public testing::TestWithParam<Case> {};

TEST_P(LayoutParity, EqualsOneRank) {
  const Case& test = GetParam();
  Layout layout;
  Batch batch = kBatch;
  parse_layout_text(test.layout, layout, batch);
  const ModelSpec spec = spec_of(test.model);
  const HarnessResult run = run_steps(spec, layout, batch, kOptions);
  const HarnessResult& due = reference(test.model, test.is_bitwise ? batch.micro_batch : 1);
  test.is_bitwise ? expect_equal_bits(run, due) : expect_equal_to_rounding(run, due, spec.layers);
  EXPECT_EQ(run.allocated_bytes, run.planned_bytes);
  EXPECT_EQ(run.bytes_sent, run.predicted_sent);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::string> models = {"llama", "qwen", "gpt2"};
  for (const std::string& model : models) {
    // Pipelines whose micro-batches ascend: the same bits as without.
    for (const char* const layout :
         {"pp=2 schedule=naive", "pp=2 schedule=gpipe", "pp=2 schedule=1f1b mbs=2",
          "pp=4 schedule=1f1b", "pp=4 schedule=1f1b-eager", "pp=2 schedule=interleaved:2",
          "pp=4 schedule=1f1b recompute=full", "pp=2 schedule=interleaved:2 recompute=selective",
          "pp=2 schedule=zb-h1", "pp=4 schedule=zb-h1", "pp=4 schedule=zb-h2", "pp=2 schedule=zb-v",
          "pp=2 schedule=zb-v recompute=full", "pp=2 schedule=dualpipe-v",
          "pp=3 schedule=1f1b stages=0,3,1", "pp=2 schedule=1f1b stages=4,0"}) {
      all.push_back({layout, model, true});
    }
    for (const char* const layout :
         {"pp=2 schedule=gpipe-lifo",
          "pp=2 schedule=breadth-first:2",
          "pp=2 schedule=dualpipe",
          "pp=4 schedule=dualpipe",
          "tp=2",
          "tp=4",
          "tp=2 recompute=full",
          "tp=2 recompute=selective mbs=2",
          "dp=2 tp=2",
          "dp=2 tp=2 zero=1",
          "pp=2 tp=2 schedule=1f1b",
          "pp=2 tp=2 schedule=zb-h1",
          "pp=2 dp=2 schedule=1f1b",
          "pp=2 dp=2 zero=1 schedule=zb-v",
          "pp=2 dp=2 tp=2 schedule=1f1b",
          "pp=2 dp=2 tp=2 zero=1 schedule=1f1b dp_sync=naive",
          "pp=2 dp=2 tp=2 zero=1 schedule=zb-v recompute=selective",
          "pp=2 dp=2 tp=2 zero=1 schedule=interleaved:2 recompute=full",
          "tp=2 sp=1",
          "tp=4 sp=1",
          "tp=4 sp=1 mbs=2",
          "tp=2 sp=1 recompute=selective",
          "tp=2 sp=1 recompute=full",
          "dp=2 tp=2 sp=1 zero=1",
          "pp=2 tp=2 sp=1 schedule=1f1b",
          "pp=2 tp=2 sp=1 schedule=zb-v",
          "pp=2 dp=2 tp=2 sp=1 zero=1 schedule=zb-h1 recompute=selective",
          "pp=2 tp=2 sp=1 schedule=dualpipe",
          "pp=2 tp=4 sp=1 schedule=interleaved:2"}) {
      all.push_back({layout, model, false});
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

INSTANTIATE_TEST_SUITE_P(All, LayoutParity, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace trireme
