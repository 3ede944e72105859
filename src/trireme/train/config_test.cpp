#include "trireme/train/config.h"

#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

TrainConfig small_config() {
  TrainConfig config;
  config.run.steps = 10;
  config.model.spec = {
      .layers = 2, .hidden = 64, .heads = 4, .ffn = 128, .vocab = 256, .max_seq = 64};
  config.data.text = {"a.txt"};
  config.batch = {.seq = 32, .micro_batch = 2, .global_batch = 8};
  return config;
}

/// The message with which `checked` refuses `config`; empty if it does not.
std::string refusal(const TrainConfig& config) {
  try {
    static_cast<void>(checked(config));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(CheckedConfig, ResolvesTheModelAndKeepsTheRest) {
  const TrainConfig before = small_config();
  TrainConfig after = checked(before);
  EXPECT_EQ(after.model.spec.kv_heads, 4);
  EXPECT_EQ(after.model.spec.head_dim, 16);
  after.model.spec = before.model.spec;
  EXPECT_EQ(after, before);
}

TEST(CheckedConfig, StepsMustBeSet) {
  TrainConfig config = small_config();
  config.run.steps = 0;
  EXPECT_EQ(refusal(config),
            "[run] steps is not set: must be an integer >= 1; set it in [run] or with --run.steps "
            "(Optimizer steps of the whole run.)");
}

TEST(CheckedConfig, GlobalBatchMustBeSet) {
  TrainConfig config = small_config();
  config.batch.global_batch = 0;
  EXPECT_EQ(refusal(config),
            "[batch] global_batch is not set: must be an integer >= 1; set it in [batch] or with "
            "--batch.global_batch (Sequences of one step over all ranks, a multiple of micro_batch "
            "* dp.)");
}

TEST(CheckedConfig, TextMustBeSet) {
  TrainConfig config = small_config();
  config.data.text.clear();
  EXPECT_EQ(refusal(config),
            "[data] text is not set: must be a list of paths; set it in [data] or with "
            "--data.text (Files of plain text.)");
}

TEST(CheckedConfig, NegativeStepsAreRefused) {
  TrainConfig config = small_config();
  config.run.steps = -1;
  EXPECT_EQ(refusal(config),
            "[run] steps = -1: must be an integer >= 1; the nearest valid value "
            "is 1");
}

TEST(CheckedConfig, NegativeLearningRateIsRefused) {
  TrainConfig config = small_config();
  config.optimizer.lr = -1.0;
  EXPECT_EQ(refusal(config),
            "[optimizer] lr = -1.0: must be a number > 0; for example lr = 0.0003, the default");
}

TEST(CheckedConfig, ZeroBucketIsRefused) {
  TrainConfig config = small_config();
  config.layout.bucket_mib = 0.0;
  EXPECT_EQ(refusal(config),
            "[layout] bucket_mib = 0.0: must be a number > 0; for example "
            "bucket_mib = 25.0, the default");
}

TEST(CheckedConfig, DropoutAboveOneIsRefused) {
  TrainConfig config = small_config();
  config.model.spec.dropout = 1.5;
  EXPECT_EQ(refusal(config),
            "[model] dropout = 1.5: must be a number in [0, 1); for example "
            "dropout = 0.0, the default");
}

TEST(CheckedConfig, BetaOfOneIsRefused) {
  TrainConfig config = small_config();
  config.optimizer.betas = {0.9, 1.0};
  EXPECT_EQ(refusal(config),
            "[optimizer] betas = [0.9, 1.0]: must be a list of 2 numbers in "
            "[0, 1); for example betas = [0.9, 0.95], the default");
}

TEST(CheckedConfig, GlobalBatchThatDoesNotDivideNamesTheNearestOnes) {
  TrainConfig config = small_config();
  config.batch.global_batch = 10;
  config.layout.dp = 2;
  EXPECT_NE(refusal(config).find("8 or 12"), std::string::npos) << refusal(config);
}

TEST(CheckedConfig, APipelineThatFitsIsAccepted) {
  TrainConfig config = small_config();
  config.layout = {.pp = 2, .tp = 2, .sp = true, .schedule = "gpipe", .stages = {1, 1}};
  EXPECT_EQ(refusal(config), "");
}

TEST(CheckedConfig, AScheduleThatDoesNotFitTheBatchIsRefused) {
  TrainConfig config = small_config();
  config.layout = {.pp = 2, .dp = 2, .schedule = "zb-h2"};
  EXPECT_EQ(refusal(config),
            "[schedule] zb-h2 with pp = 2 and 2 micro-batches: needs at least 2 pp - 1; use 3 or "
            "more micro-batches");
}

TEST(CheckedConfig, StagesThatDoNotSumToTheLayersAreRefused) {
  TrainConfig config = small_config();
  config.layout = {.pp = 2, .stages = {2, 2}};
  EXPECT_NE(refusal(config).find("must sum to layers; use for example 1, 1"), std::string::npos)
      << refusal(config);
}

TEST(CheckedConfig, WarmupLongerThanTheRunIsRefused) {
  TrainConfig config = small_config();
  config.lr.warmup_steps = 20;
  EXPECT_EQ(refusal(config),
            "[lr] warmup_steps = 20 with [run] steps = 10: must be <= steps; use "
            "warmup_steps = 10 or more steps");
}

TEST(CheckedConfig, MinimumAboveThePeakIsRefused) {
  TrainConfig config = small_config();
  config.optimizer.lr = 1e-3;
  config.lr.min_lr = 1e-2;
  EXPECT_EQ(refusal(config),
            "[lr] min_lr = 0.01 with [optimizer] lr = 0.001: must be <= lr; use "
            "for example min_lr = 0.0001");
}

TEST(CheckedConfig, WsdNeedsDecayStepsThatFit) {
  TrainConfig config = small_config();
  config.lr = {.shape = LrShape::kWsd, .warmup_steps = 2, .decay_steps = 9};
  EXPECT_EQ(
      refusal(config),
      "[lr] decay_steps = 9 with shape = \"wsd\", warmup_steps = 2 and [run] steps = 10: must "
      "be >= 1 and fit between the peak and the last step; use for example 1, or more steps");
  config.lr.decay_steps = 0;
  EXPECT_NE(refusal(config), "");
  config.lr.decay_steps = 8;
  EXPECT_EQ(refusal(config), "");
}

TEST(CheckedConfig, VocabularyMustHoldEachByte) {
  TrainConfig config = small_config();
  config.model.spec.vocab = 101;
  EXPECT_EQ(refusal(config),
            "[model] vocab = 101 with [data] tokenizer = \"bytes\": must be >= "
            "256, one entry per byte; use vocab = 256");
}

TEST(CheckedConfig, SequenceLongerThanTheModelsIsRefused) {
  TrainConfig config = small_config();
  config.batch.seq = 65;
  EXPECT_NE(refusal(config).find("seq = 65"), std::string::npos) << refusal(config);
}

TEST(CheckedConfig, TracedStepBeyondTheRunIsRefused) {
  TrainConfig config = small_config();
  config.trace.steps = {1, 11};
  EXPECT_EQ(refusal(config),
            "[trace] steps holds 11 with [run] steps = 10: must be in 1..10; "
            "correct or remove it");
}

TEST(CheckedConfig, EvaluationNeedsHeldOutText) {
  TrainConfig config = small_config();
  config.run.eval_every = 5;
  config.data.val_fraction = 0.0;
  EXPECT_NE(refusal(config).find("[run] eval_every = 5 with [data] val_fraction = 0"),
            std::string::npos);
}

TEST(CheckedConfig, KeptCheckpointsMustBeSavedOnes) {
  TrainConfig config = small_config();
  config.checkpoint = {.every = 4, .keep_every = 10};
  EXPECT_NE(refusal(config).find("use for example 12"), std::string::npos) << refusal(config);
}

TEST(CheckedConfig, RunNameMayHoldQuotesLineBreaksAndEmojiButNoSlash) {
  TrainConfig config = small_config();
  config.run.name = "a \"quoted\" \\ name\n\U0001F680";
  EXPECT_EQ(refusal(config), "");
  config.run.name = "../outside";
  EXPECT_EQ(refusal(config),
            "[run] name = \"../outside\": must be the name of a folder in run.dir, "
            "without \"/\"; put leading folders into run.dir");
  config.run.name = "..";
  EXPECT_NE(refusal(config), "");
}

TEST(LrScheduleOfConfig, TakesItsPeakFromTheOptimizer) {
  TrainConfig config = small_config();
  config.optimizer.lr = 1e-3;
  config.lr = {.shape = LrShape::kLinear, .warmup_steps = 3, .decay_steps = 5, .min_lr = 1e-5};
  EXPECT_EQ(lr_schedule(config), (LrSchedule{.shape = LrShape::kLinear,
                                             .lr = 1e-3,
                                             .min_lr = 1e-5,
                                             .warmup_steps = 3,
                                             .decay_steps = 5,
                                             .total_steps = 10}));
}

TEST(TrainingText, NamesWhatIsLearntFrom) {
  const std::string text = training_text(checked(small_config()));
  EXPECT_NE(text.find("run.seed = 0\nrun.steps = 10\n"), std::string::npos) << text;
  EXPECT_NE(text.find("model.hidden = 64\n"), std::string::npos) << text;
  EXPECT_NE(text.find("optimizer.betas = [0.9, 0.95]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("batch.global_batch = 8\n"), std::string::npos) << text;
}

TEST(ConfigHash, IgnoresWhereARunRunsAndWhatItLogs) {
  TrainConfig config = small_config();
  const std::string hash = config_hash(config);
  EXPECT_EQ(hash.size(), 16U);
  config.layout.dp = 4;
  config.layout.zero = 1;
  config.layout.pp = 2;
  config.layout.schedule = "zb-v";
  config.run.name = "other";
  config.run.log_every = 1;
  config.checkpoint.every = 5;
  EXPECT_EQ(config_hash(config), hash);
}

TEST(ConfigHash, ChangesWithTheLearningRate) {
  TrainConfig config = small_config();
  const std::string hash = config_hash(config);
  config.optimizer.lr *= 2.0;
  EXPECT_NE(config_hash(config), hash);
}

}  // namespace
}  // namespace trireme
