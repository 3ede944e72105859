// Equalities of data-parallel training: bit by bit where the order of additions is the same.
#include <gtest/gtest.h>

#include "step_harness.h"

namespace trireme {
namespace {

ModelSpec qwen() {
  return resolved({.family = Family::kLlama,
                   .layers = 2,
                   .hidden = 24,
                   .heads = 3,
                   .kv_heads = 1,
                   .head_dim = 6,
                   .ffn = 20,
                   .vocab = 31,
                   .max_seq = 16,
                   .tied = true,
                   .qkv_bias = true,
                   .qk_norm = true});
}
ModelSpec gpt2() {
  return resolved({.family = Family::kGpt2,
                   .layers = 2,
                   .hidden = 24,
                   .heads = 3,
                   .vocab = 31,
                   .max_seq = 16,
                   .tied = true,
                   .dropout = 0.1});
}

constexpr Batch kBatch{.seq = 11, .micro_batch = 1, .global_batch = 12};
const HarnessOptions kFiveSteps{.steps = 5};

void expect_equal_to_rounding(const HarnessResult& run, const HarnessResult& reference) {
  EXPECT_NEAR(run.losses.back(), reference.losses.back(), 1e-5);
  const TensorError gradients = largest_error(run.first_gradients, reference.first_gradients);
  EXPECT_LE(gradients.error, 1e-5) << gradients.name;
  const TensorError weights =
      largest_error(without_key_bias(run.weights), without_key_bias(reference.weights));
  EXPECT_LE(weights.error, 1e-5) << weights.name;
}

class Families : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static ModelSpec spec() {
    return GetParam() == 0 ? small_llama() : GetParam() == 1 ? qwen() : gpt2();
  }
};

TEST_P(Families, ClippingIsActiveInTheseTests) {
  const HarnessResult run = run_steps(spec(), {}, kBatch, kFiveSteps);
  for (const double norm : run.grad_norms) EXPECT_GT(norm, kFiveSteps.max_norm);
}

TEST_P(Families, RecomputationChangesNoBit) {
  const HarnessResult none =
      run_steps(spec(), {.dp = 2, .recompute = Recompute::kNone}, kBatch, kFiveSteps);
  expect_equal_bits(
      none, run_steps(spec(), {.dp = 2, .recompute = Recompute::kSelective}, kBatch, kFiveSteps));
  expect_equal_bits(
      none, run_steps(spec(), {.dp = 2, .recompute = Recompute::kFull}, kBatch, kFiveSteps));
}

TEST_P(Families, NaiveBucketedOverlappedAndZero1AgreeInEveryBit) {
  const HarnessResult naive =
      run_steps(spec(), {.dp = 3, .dp_sync = DpSync::kNaive}, kBatch, kFiveSteps);
  for (const DpSync sync : {DpSync::kNaive, DpSync::kBucketed, DpSync::kOverlapped}) {
    for (const int zero : {0, 1}) {
      SCOPED_TRACE(std::string(dp_sync_name(sync)) + " zero " + std::to_string(zero));
      const Layout layout{.dp = 3, .zero = zero, .dp_sync = sync, .bucket_mib = 0.002};
      expect_equal_bits(naive, run_steps(spec(), layout, kBatch, kFiveSteps));
    }
  }
}

TEST_P(Families, ZeroStagesThatReduceOnceAStepAgreeInEveryBit) {
  // Six micro-batches a rank, and one: then ZeRO-2 and 3 reduce within the backward pass.
  for (const std::int64_t micro_batch : {1, 6}) {
    const Batch batch{.seq = 8, .micro_batch = micro_batch, .global_batch = 18};
    const HarnessResult whole = run_steps(spec(), {.dp = 3}, batch, kFiveSteps);
    for (const char* const text : {"zero=1", "zero=2", "zero=2 bucket_mib=0.002", "zero=3",
                                   "zero=3 prefetch=0", "zero=3 prefetch=3 recompute=full",
                                   "zero=3 reshard=never", "zero=3 reshard=never prefetch=0"}) {
      SCOPED_TRACE(testing::Message() << text << ", micro_batch " << micro_batch);
      Layout layout{.dp = 3};
      Batch same = batch;
      parse_layout_text(text, layout, same);
      expect_equal_bits(whole, run_steps(spec(), layout, batch, kFiveSteps));
    }
  }
}

TEST_P(Families, AReductionOfEachMicroBatchGivesTheSameTrainingToRounding) {
  const HarnessResult once = run_steps(spec(), {.dp = 2}, kBatch, kFiveSteps);
  for (const int zero : {2, 3}) {
    for (const int dp_shard : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << "zero " << zero << ", dp_shard " << dp_shard);
      const Layout layout{.dp = 2,
                          .zero = zero,
                          .dp_shard = dp_shard,
                          .reduce = GradientReduction::kMicroBatch,
                          .bucket_mib = 0.002};
      const HarnessResult run = run_steps(spec(), layout, kBatch, kFiveSteps);
      expect_equal_to_rounding(run, once);
      EXPECT_EQ(run.bytes_sent, run.predicted_sent);
      EXPECT_EQ(run.allocated_bytes, run.planned_bytes);
    }
  }
}

TEST_P(Families, ASecondRunGivesTheSameBits) {
  const Layout layout{.dp = 4, .zero = 1, .bucket_mib = 0.002, .recompute = Recompute::kSelective};
  expect_equal_bits(run_steps(spec(), layout, kBatch, kFiveSteps),
                    run_steps(spec(), layout, kBatch, kFiveSteps));
}

TEST_P(Families, EvaluationChangesNoBit) {
  HarnessOptions with_eval = kFiveSteps;
  with_eval.eval_every = 2;
  const Layout layout{.dp = 2, .zero = 1, .bucket_mib = 0.002};
  const HarnessResult evaluated = run_steps(spec(), layout, kBatch, with_eval);
  expect_equal_bits(run_steps(spec(), layout, kBatch, kFiveSteps), evaluated);
  EXPECT_EQ(evaluated.eval_losses.size(), 2U);
}

TEST_P(Families, AnyDpSizeGivesTheSameTrainingToRounding) {
  const HarnessResult one = run_steps(spec(), {.dp = 1}, kBatch, kFiveSteps);
  for (const int dp : {2, 3, 4}) {
    SCOPED_TRACE(dp);
    const HarnessResult run =
        run_steps(spec(), {.dp = dp, .zero = 1, .bucket_mib = 0.002}, kBatch, kFiveSteps);
    expect_equal_to_rounding(run, one);
  }
}

TEST_P(Families, AnyAccumulationGivesTheSameTrainingToRounding) {
  const ModelSpec model = spec();
  const HarnessResult whole =
      run_steps(model, {}, {.seq = 8, .micro_batch = 16, .global_batch = 16}, kFiveSteps);
  for (const std::int64_t micro_batch : {1, 4}) {
    SCOPED_TRACE(micro_batch);
    const HarnessResult run = run_steps(
        model, {}, {.seq = 8, .micro_batch = micro_batch, .global_batch = 16}, kFiveSteps);
    expect_equal_to_rounding(run, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Families, testing::Values(0, 1, 2), [](const auto& param_info) {
  return param_info.param == 0 ? "llama" : param_info.param == 1 ? "qwen" : "gpt2";
});

TEST(DataParallel, ParametersOfOneThreeAndSixElementsWorkOnFourRanks) {
  for (const std::int64_t hidden : {1, 3, 6}) {
    SCOPED_TRACE(hidden);
    const ModelSpec spec = resolved({.family = Family::kGpt2,
                                     .layers = 1,
                                     .hidden = hidden,
                                     .heads = 1,
                                     .ffn = hidden,
                                     .vocab = 5,
                                     .max_seq = 4,
                                     .tied = true});
    const Batch batch{.seq = 4, .micro_batch = 1, .global_batch = 4};
    const HarnessResult naive =
        run_steps(spec, {.dp = 4, .dp_sync = DpSync::kNaive}, batch, kFiveSteps);
    expect_equal_bits(naive,
                      run_steps(spec, {.dp = 4, .zero = 1, .bucket_mib = 1e-6}, batch, kFiveSteps));
    EXPECT_LE(
        largest_error(naive.first_gradients, run_steps(spec, {}, batch, kFiveSteps).first_gradients)
            .error,
        1e-5);
  }
}

TEST(DataParallel, AllocatedBytesEqualPlannedBytesOnEveryRank) {
  for (const int dp : {1, 2, 4}) {
    for (const int zero : {0, 1}) {
      const HarnessResult run = run_steps(small_llama(), {.dp = dp, .zero = zero}, kBatch);
      EXPECT_EQ(run.allocated_bytes, run.planned_bytes) << dp << " ranks, zero " << zero;
    }
  }
}

}  // namespace
}  // namespace trireme
