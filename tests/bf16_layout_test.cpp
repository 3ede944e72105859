// Training in bf16: every layout against one rank, and one rank against fp32.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout_models.h"
#include "step_harness.h"
#include "trireme/base/sanitized.h"

namespace trireme {
namespace {

using namespace layout_models;  // NOLINT(google-build-using-namespace)

constexpr Batch kBatch{.seq = 16, .micro_batch = 1, .global_batch = 16};

HarnessOptions options_of(DType compute) {
  const int steps = kIsSanitized ? 2 : 5;
  return {.steps = steps, .eval_every = steps, .compute = compute};
}

const HarnessResult& one_rank(const std::string& model, DType compute,
                              std::int64_t micro_batch = 1) {
  static std::map<std::tuple<std::string, DType, std::int64_t>, HarnessResult> results;
  auto& result = results[{model, compute, micro_batch}];
  if (result.losses.empty()) {
    Batch batch = kBatch;
    batch.micro_batch = micro_batch;
    result = run_steps(spec_of(model), {}, batch, options_of(compute));
  }
  return result;
}

class Bf16Layouts : public testing::TestWithParam<Case> {};

/// Of gradients, relative to a tensor's largest element: sums in another order round otherwise, and
/// differ as much from one rank in bf16 as that differs from fp32.
constexpr double kGradientBound = 0.04;

TEST_P(Bf16Layouts, EqualOneRank) {
  Layout layout;
  Batch batch = kBatch;
  parse_layout_text(GetParam().layout, layout, batch);
  const HarnessResult run =
      run_steps(spec_of(GetParam().model), layout, batch, options_of(DType::kBf16));
  const bool is_bitwise = GetParam().is_bitwise;
  const HarnessResult& due =
      one_rank(GetParam().model, DType::kBf16, is_bitwise ? batch.micro_batch : 1);
  EXPECT_EQ(run.allocated_bytes, run.planned_bytes);
  EXPECT_EQ(run.bytes_sent, run.predicted_sent);
  if (is_bitwise) {
    EXPECT_EQ(run.eval_losses, due.eval_losses);
    return expect_equal_bits(run, due);
  }
  for (std::size_t i = 0; i < due.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], due.losses[i], 2e-3 * due.losses[i]);
    EXPECT_NEAR(run.grad_norms[i], due.grad_norms[i], 2e-2 * due.grad_norms[i]);
  }
  const TensorError error =
      largest_error(without_key_bias(run.first_gradients), without_key_bias(due.first_gradients));
  EXPECT_LE(error.error, kGradientBound) << error.name;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* const model : {"llama", "qwen", "gpt2"}) {
    for (const char* const layout :
         {"recompute=selective", "recompute=full", "pp=2 schedule=gpipe",
          "pp=4 schedule=1f1b mbs=2", "pp=2 schedule=interleaved:2 recompute=full",
          "pp=4 schedule=zb-h1", "pp=2 schedule=zb-v", "pp=3 schedule=1f1b stages=0,3,1"}) {
      all.push_back({layout, model, true});
    }
    for (const char* const layout :
         {"dp=2", "dp=2 zero=1 dp_sync=naive", "tp=2", "tp=4 sp=1", "tp=2 sp=1 recompute=full",
          "pp=2 dp=2 tp=2 sp=1 zero=1 schedule=zb-v recompute=selective",
          "pp=2 tp=2 schedule=dualpipe", "cp=2", "cp=4 cp_comm=all_gather", "cp=4 recompute=full",
          "dp=2 cp=2 zero=1", "cp=2 tp=2 sp=1 recompute=selective", "pp=2 cp=2 tp=2 schedule=zb-v",
          "pp=2 cp=2 cp_comm=all_gather schedule=interleaved:2"}) {
      all.push_back({layout, model, false});
    }
  }
  if (!kIsSanitized) return all;
  std::vector<Case> few;
  for (std::size_t i = 0; i < all.size(); i += 7) few.push_back(all[i]);
  return few;
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Layouts, testing::ValuesIn(cases()), case_name);

class Bf16Models : public testing::TestWithParam<const char*> {};

TEST_P(Bf16Models, NaiveBucketedOverlappedAndZero1AgreeInEveryBit) {
  const ModelSpec spec = spec_of(GetParam());
  for (const DType reduce : {DType::kF32, DType::kBf16}) {
    HarnessOptions options = options_of(DType::kBf16);
    options.reduce = reduce;
    const HarnessResult naive =
        run_steps(spec, {.dp = 4, .dp_sync = DpSync::kNaive}, kBatch, options);
    for (const DpSync sync : {DpSync::kNaive, DpSync::kBucketed, DpSync::kOverlapped}) {
      for (const int zero : {0, 1}) {
        SCOPED_TRACE(std::string(dp_sync_name(sync)) + " zero " + std::to_string(zero));
        const Layout layout{.dp = 4, .zero = zero, .dp_sync = sync, .bucket_mib = 0.002};
        expect_equal_bits(naive, run_steps(spec, layout, kBatch, options));
      }
    }
  }
}

// Megatron-LM's --grad-reduce-in-bf16 halves what gradients cost on the way.
TEST_P(Bf16Models, GradientsThatTravelInBf16AreRoundedTwiceAndSendHalf) {
  HarnessOptions options;
  const Layout layout{.dp = 4, .bucket_mib = 0.002};
  const ModelSpec spec = spec_of(GetParam());
  const HarnessResult wide = run_steps(spec, layout, kBatch, options);
  options.reduce = DType::kBf16;
  const HarnessResult narrow = run_steps(spec, layout, kBatch, options);
  EXPECT_EQ(narrow.losses, wide.losses);
  EXPECT_EQ(narrow.bytes_sent, narrow.predicted_sent);
  constexpr double kScalars = 64;  // loss and token count
  EXPECT_NEAR(static_cast<double>(narrow.bytes_sent[0].at("dp")),
              static_cast<double>(wide.bytes_sent[0].at("dp")) / 2, kScalars);
  const TensorError error = largest_error(without_key_bias(narrow.first_gradients),
                                          without_key_bias(wide.first_gradients));
  EXPECT_LE(error.error, 2e-2) << error.name;
  EXPECT_GT(error.error, 1e-4);
}

TEST_P(Bf16Models, FollowFp32) {
  const HarnessResult& narrow = one_rank(GetParam(), DType::kBf16);
  const HarnessResult& wide = one_rank(GetParam(), DType::kF32);
  for (std::size_t i = 0; i < wide.losses.size(); ++i) {
    EXPECT_NEAR(narrow.losses[i], wide.losses[i], 5e-3 * wide.losses[i]);
    EXPECT_NEAR(narrow.grad_norms[i], wide.grad_norms[i], 3e-2 * wide.grad_norms[i]);
  }
  const TensorError error = largest_error(without_key_bias(narrow.first_gradients),
                                          without_key_bias(wide.first_gradients));
  EXPECT_LE(error.error, kGradientBound) << error.name;
  EXPECT_GT(error.error, 1e-4);  // it did compute in bf16
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Models, testing::Values("llama", "qwen", "gpt2"));

// vllm-project/speculators PR 765 and others: updates below the resolution of bf16 were lost, and
// norm weights stayed at 1.0 for whole runs.
TEST(Bf16Updates, BelowTheResolutionOfBf16AreKept) {
  HarnessOptions options = options_of(DType::kBf16);
  options.lr = 1e-4;
  options.weight_decay = 0;
  const HarnessResult run = run_steps(llama(), {}, kBatch, options);
  constexpr float kResolution = 1.0F / 256;  // below 1
  for (const auto& [name, values] : run.weights) {
    if (!name.ends_with("norm.weight")) continue;
    for (const float value : values) {
      EXPECT_NE(value, 1.0F) << name;
      EXPECT_LT(std::abs(value - 1.0F), kResolution) << name;
    }
  }
}

// The same reports: gradients of many micro-batches added in bf16 stop growing at 256 of them.
TEST(Bf16Gradients, OfManyMicroBatchesAddUpInFp32) {
  HarnessOptions options{.compute = DType::kBf16};
  options.sample = [](std::int64_t, std::span<std::int32_t> tokens,
                      std::span<std::int32_t> labels) {
    for (std::int32_t& token : tokens) token = 1;
    for (std::int32_t& label : labels) label = 2;
  };
  const HarnessResult few =
      run_steps(llama(), {}, {.seq = 4, .micro_batch = 1, .global_batch = 1}, options);
  const int many = kIsSanitized ? 300 : 1000;
  const HarnessResult sum =
      run_steps(llama(), {}, {.seq = 4, .micro_batch = 1, .global_batch = many}, options);
  // Equal micro-batches: the mean gradient is that of one, but for rounding 1/N.
  EXPECT_NEAR(sum.grad_norms[0], few.grad_norms[0], 5e-3 * few.grad_norms[0]);
}

}  // namespace
}  // namespace trireme
