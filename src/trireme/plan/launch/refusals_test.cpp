// What each framework refuses, one rule a test.
#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/plan/launch/launch.h"
#include "trireme/plan/launch/test_requests.h"

namespace trireme {
namespace {

std::string refusal(Framework framework, const LaunchRequest& request) {
  return message_of<UsageError>([&] { static_cast<void>(launch_files(framework, request)); });
}

/// Of a layout of Llama 3 8B.
std::string refusal(Framework framework, const std::string& layout,
                    std::int64_t global_batch = 64) {
  return refusal(framework, launch_request("llama-3-8b", layout, global_batch));
}

constexpr Framework kTrireme = Framework::kTrireme;
constexpr Framework kTorchtitan = Framework::kTorchtitan;
constexpr Framework kMegatron = Framework::kMegatron;
constexpr Framework kNanotron = Framework::kNanotron;
constexpr Framework kPicotron = Framework::kPicotron;
constexpr Framework kDeepspeed = Framework::kDeepspeed;

// Any framework.

TEST(LaunchRefuses, OtherDevicesThanRanks) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8 zero=1", 64);
  request.setting.nodes = 2;
  EXPECT_EQ(refusal(kMegatron, request),
            "[megatron] nodes = 2 with 8 devices each: must be as many devices as the layout has "
            "ranks, 8; use as many nodes and devices, or another layout");
}

TEST(LaunchRefuses, BatchThatDoesNotDivide) {
  EXPECT_CONTAINS(refusal(kNanotron, "dp=8 mbs=4", 40),
                  "must be a multiple of micro_batch * dp = 32; use global_batch = 32 or 64");
}

TEST(LaunchRefuses, BatchOfNothing) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.batch.micro_batch = 0;
  EXPECT_CONTAINS(refusal(kMegatron, request), "must be from 1 to 2147483647");
}

TEST(LaunchRefuses, BucketOfNothing) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.layout.bucket_mib = 0;
  EXPECT_CONTAINS(refusal(kMegatron, request), "bucket_mib = 0: must be above 0");
}

TEST(LaunchRefuses, ExpertsOfADenseModel) {
  EXPECT_CONTAINS(refusal(kMegatron, "dp=8 ep=2"), "ep = 2: a dense model has no experts");
}

TEST(LaunchRefuses, ShardsWithoutZero) {
  EXPECT_CONTAINS(refusal(kMegatron, "dp=8 dp_shard=2"), "and 0 without ZeRO");
}

TEST(LaunchRefuses, SequenceParallelismWithoutTensorParallelism) {
  EXPECT_CONTAINS(refusal(kMegatron, "dp=8 sp=1"), "sp = 1 with tp = 1");
}

TEST(LaunchRefuses, WarmupOfAllSteps) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.setting.warmup_steps = request.setting.steps;
  EXPECT_CONTAINS(refusal(kMegatron, request), "must be from 0 to steps - 1 = 999");
}

TEST(LaunchRefuses, LearningRateOfZero) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.setting.lr = 0;
  EXPECT_CONTAINS(refusal(kMegatron, request), "lr = 0: must be above 0");
}

TEST(LaunchRefuses, ModelWithoutName) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.model_name.clear();
  EXPECT_CONTAINS(refusal(kMegatron, request), "must have a name");
}

// Trireme.

TEST(TriremeLaunch, RefusesWhatTheTrainerRefuses) {
  EXPECT_CONTAINS(refusal(kTrireme, "tp=16"), "[layout] tp = 16");
}

TEST(TriremeLaunch, RefusesAScheduleThatDoesNotFit) {
  EXPECT_CONTAINS(refusal(kTrireme, "pp=4 schedule=zb-h2", 4), "needs at least 2 pp - 1");
}

TEST(TriremeLaunch, RefusesFp8) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.precision = ComputePrecision::kFp8;
  EXPECT_CONTAINS(refusal(kTrireme, request), "it computes in bf16 or fp32");
}

// torchtitan.

TEST(TorchtitanLaunch, RefusesATiedTableOnTwoStages) {
  EXPECT_CONTAINS(
      refusal(kTorchtitan, launch_request("qwen2.5-0.5b", "pp=2", 64)),
      "tied = true with pp = 2: one table cannot be on the first and on the last stage");
}

TEST(TorchtitanLaunch, RefusesZeroOne) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "dp=8 zero=1"), "use zero = 2");
}

TEST(TorchtitanLaunch, RefusesReplicasUnderContextParallelism) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "dp=4 cp=2"), "FSDP shards over the context-parallel ranks");
}

TEST(TorchtitanLaunch, RefusesTensorParallelismThatDoesNotDivideKeyHeads) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "tp=16 sp=1"), "tp = 16 with kv_heads = 8");
}

TEST(TorchtitanLaunch, RefusesTokensThatItCannotCut) {
  LaunchRequest request = launch_request("llama-3-8b", "cp=4 zero=3", 64);
  request.batch.seq = 4100;
  EXPECT_CONTAINS(refusal(kTorchtitan, request), "must be a multiple of 8");
}

TEST(TorchtitanLaunch, RefusesMoreTokensThanPositions) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8 zero=3", 64);
  request.batch.seq = 262144;
  EXPECT_CONTAINS(refusal(kTorchtitan, request), "use seq = 131072");
}

TEST(TorchtitanLaunch, RefusesSchedulesOfOthers) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "pp=4 schedule=zb-h1"),
                  "PyTorch's pipelining has no such schedule");
}

TEST(TorchtitanLaunch, RefusesChunksOfASingleStageSchedule) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "pp=4 schedule=1f1b:2"), "chunks = 2 with schedule");
}

TEST(TorchtitanLaunch, RefusesInterleavedRoundsOfUnequalLength) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "pp=4 schedule=interleaved:2", 9),
                  "must be a multiple of its 2 rounds; use 8 or 12 micro-batches");
}

TEST(TorchtitanLaunch, RefusesFewMicroBatchesForDualPipeV) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "pp=4 schedule=dualpipe-v", 7),
                  "must be at least as many as stages");
}

TEST(TorchtitanLaunch, RefusesStagesThatDoNotSum) {
  EXPECT_CONTAINS(refusal(kTorchtitan, "pp=2 stages=16,15"), "2 numbers that sum to layers = 32");
}

TEST(TorchtitanLaunch, RefusesAModelOutsideOfItsRegistries) {
  EXPECT_CONTAINS(refusal(kTorchtitan, launch_request("tinyllama-1.1b", "dp=8 zero=3", 64)),
                  "a model must be in its registries");
}

TEST(TorchtitanLaunch, RefusesFp16) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8 zero=3", 64);
  request.precision = ComputePrecision::kFp16;
  EXPECT_CONTAINS(refusal(kTorchtitan, request), "precision = fp16");
}

// Megatron.

TEST(MegatronLaunch, RefusesTensorParallelismThatDoesNotDivideHeads) {
  EXPECT_CONTAINS(refusal(kMegatron, "tp=3"), "tp = 3 with heads = 32");
}

TEST(MegatronLaunch, RefusesKeyHeadsThatNeitherDivideNorAreDivided) {
  LaunchRequest request = launch_request("llama-3-8b", "tp=4", 64);
  request.spec.heads = 24;
  request.spec.kv_heads = 6;
  EXPECT_CONTAINS(refusal(kMegatron, request), "one must divide the other; use tp = 3 or 6");
}

TEST(MegatronLaunch, RepeatsKeyHeadsForMoreTensorParallelRanks) {
  EXPECT_NO_THROW(
      static_cast<void>(launch_files(kMegatron, launch_request("llama-3-8b", "tp=16", 64, 2))));
}

TEST(MegatronLaunch, RefusesSequencesThatZigzagCannotCut) {
  LaunchRequest request = launch_request("llama-3-8b", "cp=4", 64);
  request.batch.seq = 4100;
  EXPECT_CONTAINS(refusal(kMegatron, request), "must be a multiple of 2 * cp = 8; use seq = 4096");
}

TEST(MegatronLaunch, RefusesSequencesThatTensorParallelRanksCannotCut) {
  LaunchRequest request = launch_request("llama-3-8b", "tp=8 sp=1", 64);
  request.batch.seq = 4100;
  EXPECT_CONTAINS(refusal(kMegatron, request), "must be a multiple of tp; use seq = 4096 or 4104");
}

TEST(MegatronLaunch, RefusesSchedulesOfOthers) {
  EXPECT_CONTAINS(refusal(kMegatron, "pp=4 schedule=gpipe"), "know 1f1b and interleaved only");
}

TEST(MegatronLaunch, RefusesUnevenStagesThatAreNotGiven) {
  EXPECT_CONTAINS(refusal(kMegatron, "pp=5"), "layers = 32 with 5 stages");
}

TEST(MegatronLaunch, RefusesInterleavingOfFewMicroBatches) {
  EXPECT_CONTAINS(refusal(kMegatron, "pp=4 schedule=interleaved:2", 3), "needs at least pp");
}

TEST(MegatronLaunch, RefusesShardedGradientsInAPipeline) {
  EXPECT_CONTAINS(refusal(kMegatron, "pp=2 dp=4 zero=2"), "its FSDP knows no pipelines");
}

TEST(MegatronLaunch, RefusesMoreTokensThanLearnedPositions) {
  LaunchRequest request = launch_request("gpt2-124m", "dp=8", 64);
  request.batch.seq = 2048;
  EXPECT_CONTAINS(refusal(kMegatron, request), "use seq = 1024");
}

// nanotron.

TEST(NanotronLaunch, RefusesZeroTwo) {
  EXPECT_CONTAINS(refusal(kNanotron, "dp=8 zero=2"), "it shards optimizer state only");
}

TEST(NanotronLaunch, RefusesZeroBubbleSchedules) {
  EXPECT_CONTAINS(refusal(kNanotron, "pp=4 schedule=zb-h1"), "know 1f1b and gpipe only");
}

TEST(NanotronLaunch, RefusesStages) {
  EXPECT_CONTAINS(refusal(kNanotron, "pp=2 stages=17,15"),
                  "cannot say how many layers a stage has");
}

TEST(NanotronLaunch, RefusesFewMicroBatches) {
  EXPECT_CONTAINS(refusal(kNanotron, "pp=4", 2), "1f1b needs at least pp - 1");
}

TEST(NanotronLaunch, RefusesSelectiveRecomputation) {
  EXPECT_CONTAINS(refusal(kNanotron, "dp=8 recompute=selective"), "whole layers or nothing");
}

TEST(NanotronLaunch, RefusesGatheredContext) {
  EXPECT_CONTAINS(refusal(kNanotron, "dp=4 cp=2 cp_comm=all_gather"), "is a ring");
}

TEST(NanotronLaunch, RefusesPartialShards) {
  EXPECT_CONTAINS(refusal(kNanotron, "dp=8 zero=1 dp_shard=4"), "it shards over all of dp");
}

TEST(NanotronLaunch, RefusesGpt2) {
  EXPECT_CONTAINS(refusal(kNanotron, launch_request("gpt2-124m", "dp=8", 64)), "family = gpt2");
}

TEST(NanotronLaunch, RefusesWideHeads) {
  EXPECT_CONTAINS(refusal(kNanotron, launch_request("qwen3-32b", "dp=8", 64)), "head_dim = 128");
}

TEST(NanotronLaunch, RefusesFp32) {
  LaunchRequest request = launch_request("llama-3-8b", "dp=8", 64);
  request.precision = ComputePrecision::kFp32;
  EXPECT_CONTAINS(refusal(kNanotron, request), "it trains in bf16");
}

// picotron.

TEST(PicotronLaunch, RefusesZero) {
  EXPECT_CONTAINS(refusal(kPicotron, "dp=8 zero=1"), "it has no ZeRO");
}

TEST(PicotronLaunch, RefusesSequenceParallelism) {
  EXPECT_CONTAINS(refusal(kPicotron, "tp=8 sp=1"), "its tensor parallelism all-reduces");
}

TEST(PicotronLaunch, RefusesRecomputation) {
  EXPECT_CONTAINS(refusal(kPicotron, "dp=8 recompute=full"), "it recomputes nothing");
}

TEST(PicotronLaunch, RefusesATiedTable) {
  EXPECT_CONTAINS(refusal(kPicotron, launch_request("playbook-1b", "dp=8", 64)),
                  "its head is always a table of its own");
}

TEST(PicotronLaunch, RefusesAVocabularyThatDoesNotDivide) {
  LaunchRequest request = launch_request("llama-3-8b", "tp=8", 64);
  request.spec.vocab = 50257;
  EXPECT_CONTAINS(refusal(kPicotron, request), "tp = 8 with vocab = 50257: must divide them");
}

TEST(PicotronLaunch, RefusesMoreStagesThanLayers) {
  EXPECT_CONTAINS(refusal(kPicotron, "pp=33"), "each rank needs a layer; use pp = 32");
}

// DeepSpeed.

TEST(DeepspeedLaunch, RefusesShardedGradientsInAPipeline) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "pp=2 dp=4 zero=2"), "ZeRO-2 and 3 exclude its pipelines");
}

TEST(DeepspeedLaunch, RefusesTwoKindsOfModelParallelism) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "pp=2 tp=2"), "one of pipelines, AutoTP and Ulysses only");
}

TEST(DeepspeedLaunch, RefusesSequenceParallelism) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "tp=8 sp=1"), "AutoTP all-reduces");
}

TEST(DeepspeedLaunch, RefusesUlyssesRanksThatDoNotDivideHeads) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "cp=64"), "cp = 64 with heads = 32");
}

TEST(DeepspeedLaunch, RefusesUlyssesRanksBetweenKeyHeads) {
  LaunchRequest request = launch_request("llama-3-8b", "cp=8", 64);
  request.spec.heads = 24;
  request.spec.kv_heads = 12;
  EXPECT_CONTAINS(refusal(kDeepspeed, request), "cp = 8 with kv_heads = 12");
}

TEST(DeepspeedLaunch, RefusesGpipe) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "pp=2 schedule=gpipe"), "its pipelines know 1f1b only");
}

TEST(DeepspeedLaunch, RefusesToHoldGatheredParameters) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "dp=8 zero=3 reshard=never"),
                  "ZeRO-3 frees parameters after each pass");
}

TEST(DeepspeedLaunch, RefusesSelectiveRecomputation) {
  EXPECT_CONTAINS(refusal(kDeepspeed, "dp=8 recompute=selective"), "it checkpoints whole layers");
}

}  // namespace
}  // namespace trireme
