// Losses, gradients and AdamW steps of four models against stored PyTorch numbers (tests/fixtures).
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "step_harness.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

std::filesystem::path fixture(const std::string& file) {
  return std::filesystem::path(TRIREME_FIXTURES) / file;
}

ModelSpec spec_in(const Json& model) {
  const auto count = [&](const char* key) { return model.at(key).get<std::int64_t>(); };
  return resolved({.family = model.at("family") == "gpt2" ? Family::kGpt2 : Family::kLlama,
                   .layers = count("layers"),
                   .hidden = count("hidden"),
                   .heads = count("heads"),
                   .kv_heads = count("kv_heads"),
                   .head_dim = count("head_dim"),
                   .ffn = count("ffn"),
                   .vocab = count("vocab"),
                   .max_seq = count("max_seq"),
                   .rope_base = model.value("rope_base", 10000.0),
                   .norm_eps = model.at("norm_eps").get<double>(),
                   .tied = model.at("tied").get<bool>(),
                   .qkv_bias = model.at("family") == "llama" && model.at("qkv_bias").get<bool>(),
                   .qk_norm = model.at("qk_norm").get<bool>()});
}

NamedTensors tensors_with_prefix(const SafetensorsReader& reader, const std::string& prefix) {
  NamedTensors tensors;
  for (const TensorInfo& info : reader.tensors()) {
    if (!info.name.starts_with(prefix) || info.dtype != DType::kF32) continue;
    auto& values = tensors[info.name.substr(prefix.size())];
    values.resize(static_cast<std::size_t>(info.bytes) / sizeof(float));
    reader.read(info.name, std::as_writable_bytes(std::span(values)));
  }
  return tensors;
}

struct Fixture {
  Json json;
  ModelSpec spec;
  Batch batch;
  NamedTensors weights, gradients;
  std::vector<std::int32_t> tokens, labels;

  /// `numbers` holds tokens, labels and gradients, `weights` the weights.
  Fixture(const std::string& weights_name, const std::string& numbers_name) {
    std::ifstream(fixture(weights_name + ".json")) >> json;
    spec = spec_in(json.at("model"));
    batch = {.seq = json["batch"]["seq"],
             .micro_batch = json["batch"]["micro_batch"],
             .global_batch = json["batch"]["micro_batch"]};
    weights =
        tensors_with_prefix(SafetensorsReader(fixture(weights_name + ".safetensors")), "weight.");
    const SafetensorsReader numbers(fixture(numbers_name + ".safetensors"));
    gradients = tensors_with_prefix(numbers, "grad.");
    for (auto* const values : {&tokens, &labels}) {
      values->resize(static_cast<std::size_t>(batch.micro_batch * batch.seq));
      numbers.read(values == &tokens ? "tokens" : "labels",
                   std::as_writable_bytes(std::span(*values)));
    }
  }

  [[nodiscard]] HarnessOptions options(int steps) const {
    HarnessOptions options{.steps = steps, .max_norm = 1.0};
    options.sample = [this](std::int64_t sample, std::span<std::int32_t> t,
                            std::span<std::int32_t> l) {
      const auto first = static_cast<std::size_t>(sample % batch.micro_batch * batch.seq);
      std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(first), t.size(), t.begin());
      std::copy_n(labels.begin() + static_cast<std::ptrdiff_t>(first), l.size(), l.begin());
    };
    options.fill = [this](ModelState& state) {
      for (const StateTensor& tensor : state.tensors(StateKind::kParameter, "", "")) {
        state.store(tensor, weights.at(tensor.name));
      }
    };
    return options;
  }
};

/// Largest |a - b| / largest |b| over tensors: "relative" as the fixtures' users mean it.
void expect_gradients_agree(const HarnessResult& run, const NamedTensors& reference) {
  for (const auto& [name, expected] : reference) {
    const TensorError error =
        largest_error({{name, run.first_gradients.at(name)}}, {{name, expected}});
    EXPECT_LE(error.error, 1e-4) << name;
  }
  EXPECT_EQ(run.first_gradients.size(), reference.size());
}

class PyTorch : public testing::TestWithParam<const char*> {};

TEST_P(PyTorch, LossAndEveryGradientAgree) {
  const std::string numbers = GetParam();
  const bool is_masked = numbers.ends_with("_masked");
  const std::string model = numbers.substr(0, numbers.find('_'));
  const Fixture fixture(model, numbers);
  const Json& expected = is_masked ? fixture.json.at("masked") : fixture.json;
  const HarnessResult run = run_steps(fixture.spec, {}, fixture.batch, fixture.options(1));
  EXPECT_NEAR(run.losses.front(), expected.at("loss").get<double>(), 1e-5);
  EXPECT_NEAR(run.grad_norms.front() / expected.at("grad_norm").get<double>(), 1.0, 1e-5);
  NamedTensors reference = fixture.gradients;
  if (fixture.spec.family == Family::kGpt2) {  // their gradient is zero in exact arithmetic
    for (auto& [name, range] : fixture.json["adamw"]["rounding_only"].items()) {
      for (std::size_t i = range[0]; i < range[1]; ++i) {
        EXPECT_LE(std::abs(run.first_gradients.at(name)[i]), 1e-5) << name;
      }
    }
  }
  expect_gradients_agree(run, reference);
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorch,
                         testing::Values("llama", "qwen2", "qwen3", "gpt2", "llama_masked"),
                         [](const auto& param_info) { return std::string(param_info.param); });

class PyTorchBf16 : public testing::TestWithParam<const char*> {};

/// Largest absolute difference.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

// Both round where they store; neither is the other's truth. Trireme's gradients in bf16 must lie
// as near to PyTorch's fp32 gradients as PyTorch's own in bf16 do.
TEST_P(PyTorchBf16, LossAndEveryGradientAreAsNearToFp32AsPyTorchsOwn) {
  const Fixture fixture(GetParam(), GetParam());
  HarnessOptions options = fixture.options(1);
  options.compute = DType::kBf16;
  const HarnessResult run = run_steps(fixture.spec, {}, fixture.batch, options);
  const Json& narrow = fixture.json.at("bf16");
  EXPECT_NEAR(run.losses.front(), fixture.json.at("loss").get<double>(), 5e-3 * run.losses.front());
  EXPECT_NEAR(run.grad_norms.front() / fixture.json.at("grad_norm").get<double>(), 1.0, 1e-2);
  double sum = 0, due = 0;
  for (const auto& [name, expected] : fixture.gradients) {
    const double error = largest_difference(run.first_gradients.at(name), expected);
    const double theirs = narrow.at("grad_error").at(name).get<double>();
    EXPECT_LE(error, 3 * theirs) << name;
    sum += error;
    due += theirs;
  }
  EXPECT_LE(sum, 1.1 * due);
  EXPECT_GT(sum, 0.05 * due);  // it did round
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorchBf16, testing::Values("llama", "qwen2", "qwen3", "gpt2"));

class PyTorchAdamw : public testing::TestWithParam<const char*> {};

TEST_P(PyTorchAdamw, FiveClippedStepsAgree) {
  const std::string model = GetParam();
  const Fixture fixture(model, model);
  const Json& adamw = fixture.json.at("adamw");
  const HarnessResult run = run_steps(
      fixture.spec, {.dp = 2, .zero = 1},
      {.seq = fixture.batch.seq, .micro_batch = 1, .global_batch = 2}, fixture.options(5));
  for (std::size_t step = 0; step < 5; ++step) {
    EXPECT_NEAR(run.losses[step], adamw["losses"][step].get<double>(), 1e-5) << "step " << step + 1;
    EXPECT_NEAR(run.grad_norms[step] / adamw["grad_norms"][step].get<double>(), 1.0, 1e-4)
        << "step " << step + 1;
  }
  NamedTensors expected = tensors_with_prefix(
      SafetensorsReader(trireme::fixture(model + "_adamw.safetensors")), "weight_after.");
  NamedTensors weights = run.weights;
  for (auto& [name, range] : adamw["rounding_only"].items()) {
    for (std::size_t i = range[0]; i < range[1]; ++i) weights.at(name)[i] = expected.at(name)[i];
  }
  const TensorError worst = largest_error(weights, expected);
  EXPECT_LE(worst.error, 1e-4) << worst.name;
}

INSTANTIATE_TEST_SUITE_P(Models, PyTorchAdamw, testing::Values("llama", "gpt2"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace
}  // namespace trireme
