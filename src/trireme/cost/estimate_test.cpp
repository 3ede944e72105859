#include "trireme/cost/estimate.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trireme/base/units.h"
#include "trireme/cost/known_models.h"
#include "trireme/cost/memory.h"
#include "trireme/cost/step_time.h"

namespace trireme {
namespace {

Workload workload(const char* model, Layout layout, Batch batch) {
  return {.model = *known_model(model), .layout = std::move(layout), .batch = batch};
}

Estimate priced(const Workload& of, const char* framework, const char* cluster_name = "h100-dgx") {
  const Cluster cluster = read_cluster(cluster_name);
  return estimate(of, cluster, read_profile(framework, cluster));
}

/// A layer of arXiv:2205.05198 on A100 with tp 8: bytes per token of one layer and rank.
double paper_layer(bool sp, Recompute recompute) {
  const Cluster cluster = read_cluster("a100-dgx");
  Workload of{.model = {.layers = 48,
                        .hidden = 6144,
                        .heads = 64,
                        .kv_heads = 64,
                        .head_dim = 96,
                        .ffn = 24576,
                        .vocab = 51200,
                        .is_tied = true,
                        .has_biases = true},
              .layout = {.tp = 8, .sp = sp, .recompute = recompute},
              .batch = {.seq = 2048, .micro_batch = 4, .global_batch = 4}};
  return kept_bytes_per_token(of, read_profile("megatron", cluster));
}

TEST(KeptBytes, AreThoseOfThePaper) {
  const double h = 6144;
  const double scores = 5.0 * 64 * 2048 / h;
  EXPECT_DOUBLE_EQ(paper_layer(false, Recompute::kNone), h * (10 + 24.0 / 8 + scores / 8));
  EXPECT_DOUBLE_EQ(paper_layer(true, Recompute::kNone), h * (34 + scores) / 8);
  EXPECT_DOUBLE_EQ(paper_layer(false, Recompute::kSelective), h * (10 + 24.0 / 8));
  EXPECT_DOUBLE_EQ(paper_layer(true, Recompute::kSelective), h * 34 / 8);
}

TEST(KeptBytes, SelectiveRecomputationSavesNothingOfFusedAttention) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("megatron", cluster);
  Workload of = workload("llama-3-8b", {}, {.seq = 8192, .micro_batch = 1, .global_batch = 1});
  const double none = kept_bytes_per_token(of, profile);
  of.layout.recompute = Recompute::kSelective;
  EXPECT_EQ(kept_bytes_per_token(of, profile), none);
}

TEST(StageBytes, ZeroDividesStateByStage) {
  const auto state = [](int zero) {
    const Workload of = workload("llama-3-8b", {.dp = 8, .zero = zero},
                                 {.seq = 4096, .micro_batch = 1, .global_batch = 8});
    return priced(of, "trireme").first.state() / static_cast<double>(of.model.parameters());
  };
  EXPECT_NEAR(state(0), 18, 0.01);
  EXPECT_NEAR(state(1), 6 + 12.0 / 8, 0.01);
  EXPECT_NEAR(state(2), 2 + 16.0 / 8, 0.01);
  EXPECT_NEAR(state(3), 18.0 / 8, 0.01);
}

TEST(StageBytes, Fp32ParametersAreTheirOwnMasters) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("megatron", cluster);
  Workload of = workload("llama-3-8b", {}, {.seq = 4096, .micro_batch = 1, .global_batch = 1});
  const StageBytes half = estimate(of, cluster, profile).first;
  of.precision = ComputePrecision::kFp32;
  const StageBytes full = estimate(of, cluster, for_precision(profile, of.precision)).first;
  EXPECT_NEAR(full.state() / static_cast<double>(of.model.parameters()), 16, 0.01);
  EXPECT_NEAR(full.activations / half.activations, 2, 0.02);
}

TEST(StageBytes, EachRankHoldsWholeNorms) {
  const ModelShape model = *known_model("llama-3-8b");
  const Workload of = workload("llama-3-8b", {.tp = 8}, {.seq = 8192});
  const double matrices =
      static_cast<double>(model.layers * model.layer_matrix_elems() + 2 * model.table_elems()) / 8;
  EXPECT_DOUBLE_EQ(stage_parameters(of, {32, true, true}), matrices + 2 * 32 * 4096);
}

TEST(StageBytes, LogitsAreOnTheLastStageAlone) {
  const Workload of =
      workload("llama-3-8b", {.pp = 4}, {.seq = 8192, .micro_batch = 1, .global_batch = 4});
  const Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("megatron", cluster);
  EXPECT_EQ(stage_bytes(of, profile, {8, true, false}, 0).logits, 0);
  // fp32 and bf16: 6 bytes for each of 8192 x 128,256 logits.
  EXPECT_DOUBLE_EQ(stage_bytes(of, profile, {8, false, true}, 3).logits, 1.5 * 4'202'692'608);
}

TEST(StageBytes, AReductionThatIsPutOffHoldsWholeGradients) {
  const auto state = [](GradientReduction reduce) {
    const Workload of = workload("llama-3-8b", {.dp = 8, .zero = 3, .reduce = reduce},
                                 {.seq = 4096, .micro_batch = 1, .global_batch = 32});
    return priced(of, "trireme").fullest.state() / static_cast<double>(of.model.parameters());
  };
  EXPECT_NEAR(state(GradientReduction::kMicroBatch), 18.0 / 8, 0.01);
  EXPECT_NEAR(state(GradientReduction::kStep), 4 + 14.0 / 8, 0.01);
}

// The bars of the Playbook's memory figure: tensor parallelism divides state and activations.
TEST(Memory, SeventyBillionParametersNeedTensorParallelism) {
  const auto gib = [](int tp) {
    return priced(workload("llama-3-70b", {.tp = tp, .sp = tp > 1},
                           {.seq = 4096, .micro_batch = 1, .global_batch = 1}),
                  "nanotron")
               .first.total() /
           kGib;
  };
  EXPECT_GT(gib(1), 1200);
  EXPECT_NEAR(gib(8) / gib(1), 1.0 / 8, 0.02);
  EXPECT_NEAR(gib(16) / gib(1), 1.0 / 16, 0.02);
  EXPECT_FALSE(priced(workload("llama-3-70b", {.tp = 8, .sp = true},
                               {.seq = 4096, .micro_batch = 1, .global_batch = 1}),
                      "nanotron")
                   .fits);
}

// "From about 140 to 40 GB": state is divided by pp, the activations in flight are not.
TEST(Memory, EightStagesOfEightBillionParameters) {
  const auto bytes = [](int pp) {
    return priced(workload("llama-3-8b", {.pp = pp},
                           {.seq = 4096, .micro_batch = 1, .global_batch = 8}),
                  "megatron")
        .fullest.total();
  };
  EXPECT_NEAR(bytes(1) / 1e9, 150, 25);
  EXPECT_NEAR(bytes(8) / 1e9, 40, 12);
}

TEST(Time, FullRecomputationCostsAboutAThirdMore) {
  const auto compute = [](Recompute recompute) {
    return priced(workload("llama-3-8b", {.tp = 1, .recompute = recompute},
                           {.seq = 4096, .micro_batch = 1, .global_batch = 1}),
                  "megatron")
        .seconds.compute;
  };
  EXPECT_NEAR(compute(Recompute::kFull) / compute(Recompute::kNone), 4.0 / 3, 0.04);
}

TEST(Time, MoreStagesThanMicroBatchesAreMostlyBubble) {
  const Estimate result =
      priced(workload("llama-3-8b", {.pp = 8}, {.seq = 4096, .micro_batch = 1, .global_batch = 1}),
             "megatron");
  EXPECT_GT(result.seconds.bubble, 4 * result.seconds.compute);
}

/// Idle share of a pipeline of four equal stages, whose ends cost next to nothing.
double idle_share(const char* schedule, int chunks) {
  Workload of = workload("llama-3-8b", {.pp = 4, .schedule = schedule, .chunks = chunks},
                         {.seq = 4096, .micro_batch = 1, .global_batch = 8});
  of.model.vocab = 8;
  const Cluster cluster = read_cluster("h100-dgx");
  Profile profile = read_profile("megatron", cluster);
  profile.ends_seconds = 0;
  const StepSeconds seconds = estimate(of, cluster, profile).seconds;
  return seconds.bubble / (seconds.bubble + seconds.compute + seconds.pp);
}

TEST(Time, BubbleOfFourStagesAndEightMicroBatches) {
  EXPECT_NEAR(idle_share("1f1b", 0), 3.0 / 11, 0.004);
  EXPECT_NEAR(idle_share("interleaved", 2), 1.5 / 9.5, 0.004);
}

TEST(Time, OptimizerIsPaidOnceAStep) {
  const auto optimizer = [](std::int64_t micro_batches) {
    return priced(workload("llama-3-8b", {},
                           {.seq = 4096, .micro_batch = 1, .global_batch = micro_batches}),
                  "megatron")
        .seconds.optimizer;
  };
  EXPECT_EQ(optimizer(1), optimizer(8));
}

// A ring over many nodes is held up by its hops; over few it uses all NICs of a node, and a second
// collective across the copies does not pay.
TEST(Time, ShardsWithinANodeAreFasterOnManyNodes) {
  const auto seconds = [](int dp, int dp_shard) {
    return priced(workload("llama-3-8b", {.dp = dp, .zero = 3, .dp_shard = dp_shard},
                           {.seq = 4096, .micro_batch = 1, .global_batch = dp}),
                  "trireme")
        .seconds.total();
  };
  EXPECT_LT(seconds(2048, 8), 0.9 * seconds(2048, 0));
  EXPECT_GT(seconds(64, 8), seconds(64, 0));
  EXPECT_EQ(seconds(64, 64), seconds(64, 0));
}

TEST(Time, BucketsAreAsLargeAsTheirLatencyAsks) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("trireme", cluster);
  const auto best = [&](const Workload& of) {
    return best_bucket_mib(of, cluster, profile, stage_shares(of, profile.split));
  };
  Workload of = workload("llama-3-8b", {.dp = 512, .zero = 1},
                         {.seq = 4096, .micro_batch = 1, .global_batch = 512});
  of.layout.bucket_mib = best(of);
  EXPECT_GT(of.layout.bucket_mib, 100);
  const double least = priced(of, "trireme").seconds.dp;
  for (const double mib : {25.0, 100.0, 1600.0}) {
    of.layout.bucket_mib = mib;
    EXPECT_GE(priced(of, "trireme").seconds.dp, least) << mib;
  }
  const double of_many = best(of);
  of.layout.dp = 2;
  EXPECT_LT(best(of), of_many);
  of.layout = {};
  EXPECT_EQ(best(of), Layout{}.bucket_mib);
}

TEST(Time, TensorParallelismAcrossNodesIsSlower) {
  const auto per_device = [](int tp) {
    const Workload of =
        workload("8B", {.tp = tp, .sp = true}, {.seq = 4096, .micro_batch = 4, .global_batch = 4});
    return 1 / (priced(of, "nanotron", "h100-playbook").seconds.total() * tp);
  };
  EXPECT_GT(per_device(8), 1.5 * per_device(16));
}

TEST(Time, AStragglerSlowsAllOthers) {
  Cluster cluster = read_cluster("h100-dgx");
  const Profile profile = read_profile("megatron", cluster);
  const Workload of = workload("llama-3-8b", {}, {.seq = 4096});
  const double usual = estimate(of, cluster, profile).seconds.compute;
  cluster.straggler = 0.1;
  EXPECT_DOUBLE_EQ(estimate(of, cluster, profile).seconds.compute, 1.1 * usual);
}

TEST(Flops, AreThoseOfTheTrainer) {
  const ModelShape model = *known_model("llama-3-8b");
  EXPECT_DOUBLE_EQ(model.flops_per_token(8192), 45'029'548'032.0 + 12'884'901'888.0);
}

// README of published/: 6N + 12 L h s of the benchmark's four models.
TEST(Flops, OfThePlaybooksModels) {
  EXPECT_NEAR(known_model("1B")->flops_per_token(4096) / 1e9, 9.664, 0.001);
  EXPECT_NEAR(known_model("3B")->flops_per_token(4096) / 1e9, 25.669, 0.03);
  EXPECT_NEAR(known_model("8B")->flops_per_token(4096) / 1e9, 56.371, 0.02);
  EXPECT_NEAR(known_model("80B")->flops_per_token(4096) / 1e9, 505.73, 0.1);
}

TEST(Profiles, EveryBuiltInOneIsRead) {
  const Cluster cluster = read_cluster("h100-dgx");
  for (const BuiltInFile& file : built_in_files()) {
    if (file.folder == "profiles") {
      EXPECT_EQ(read_profile(std::string(file.stem), cluster).name, file.stem);
    }
  }
}

TEST(Profiles, PublishedRunsOnA100AreOfAnOlderVersion) {
  EXPECT_EQ(read_profile("megatron", read_cluster("a100-dgx")).name, "megatron-2022");
  EXPECT_EQ(read_profile("megatron", read_cluster("h100-dgx")).name, "megatron");
}

}  // namespace
}  // namespace trireme
