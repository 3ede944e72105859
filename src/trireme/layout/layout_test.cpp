#include "trireme/layout/layout.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

ModelSpec small_llama(std::int64_t max_seq = 0) {
  return resolved(
      {.layers = 2, .hidden = 64, .heads = 4, .ffn = 128, .vocab = 256, .max_seq = max_seq});
}

constexpr Batch kBatch = {.seq = 16, .micro_batch = 1, .global_batch = 8};

std::string refusal(const Layout& layout, const Batch& batch = kBatch,
                    const ModelSpec& spec = small_llama()) {
  try {
    check_layout(spec, layout, batch);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckLayout, AcceptsDataParallelismWithZero1) {
  EXPECT_EQ(refusal({.dp = 8, .zero = 1}), "");
}

TEST(CheckLayout, RefusesByNameWhatIsNotBuilt) {
  EXPECT_EQ(refusal({.ep = 2}), "[layout] ep = 2: expert parallelism is not built yet; use ep = 1");
}

TEST(CheckLayout, RefusesKeysOfZeroThatItsStageDoesNotKnow) {
  EXPECT_EQ(refusal({.dp = 2, .zero = 2, .reduce = GradientReduction::kMicroBatch}), "");
  EXPECT_EQ(refusal({.dp = 2, .zero = 3, .reshard = Reshard::kNever, .prefetch = 0}), "");
  EXPECT_EQ(refusal({.dp = 2, .zero = 1, .reduce = GradientReduction::kMicroBatch}),
            "[layout] reduce = micro_batch with zero = 1: a shard of the gradients needs ZeRO-2 or "
            "3; use reduce = step, or zero = 2");
  EXPECT_EQ(
      refusal({.dp = 2, .zero = 2, .reshard = Reshard::kNever}),
      "[layout] reshard = never with zero = 2: only ZeRO-3 gathers layers; use reshard = auto, "
      "or zero = 3");
  EXPECT_EQ(refusal({.dp = 2, .zero = 2, .prefetch = 2}),
            "[layout] prefetch = 2 with zero = 2: only ZeRO-3 gathers layers; use prefetch = 1, or "
            "zero = 3");
  EXPECT_EQ(refusal({.dp = 2, .zero = 3, .prefetch = -1}),
            "[layout] prefetch = -1: must be at least 0; use prefetch = 1");
  EXPECT_EQ(refusal({.dp = 2, .zero = 2, .dp_sync = DpSync::kBucketed}),
            "[layout] dp_sync = bucketed with zero = 2: ZeRO-2 and 3 start each reduction as "
            "soon as its bucket is complete; use dp_sync = overlapped, or zero = 1");
}

TEST(CheckLayout, RefusesDegreesBelowOne) {
  EXPECT_EQ(refusal({.dp = 0}), "[layout] dp = 0: must be at least 1; use dp = 1");
  EXPECT_EQ(refusal({.tp = -1}), "[layout] tp = -1: must be at least 1; use tp = 1");
  EXPECT_EQ(refusal({.ep = 0}), "[layout] ep = 0: must be at least 1; use ep = 1");
}

TEST(CheckLayout, RefusesAZeroStageThatDoesNotExist) {
  EXPECT_EQ(refusal({.zero = -1}), "[layout] zero = -1: must be a stage from 0 to 3; use zero = 0");
  EXPECT_EQ(refusal({.zero = 4}), "[layout] zero = 4: must be a stage from 0 to 3; use zero = 3");
}

TEST(CheckLayout, RefusesShardsThatDoNotDivideTheReplicas) {
  EXPECT_EQ(refusal({.dp = 8, .zero = 1, .dp_shard = 4}), "");
  EXPECT_EQ(refusal({.dp = 6, .zero = 1, .dp_shard = 4}),
            "[layout] dp_shard = 4 with dp = 6: must divide dp; use one of dp_shard = 1, 2, 3, 6");
  EXPECT_EQ(refusal({.dp = 8, .dp_shard = 4}),
            "[layout] dp_shard = 4 with zero = 0: must be 0 where nothing is sharded; use dp_shard "
            "= 0, or zero = 1 or more");
}

TEST(CheckLayout, AcceptsPipelineAndTensorParallelism) {
  EXPECT_EQ(refusal({.pp = 2, .dp = 2, .tp = 4, .sp = true, .schedule = "zb-v"}), "");
}

TEST(CheckLayout, RefusesATpThatDoesNotDivideAndListsThoseThatDo) {
  const ModelSpec spec =
      resolved({.layers = 2, .hidden = 96, .heads = 24, .kv_heads = 12, .ffn = 60, .vocab = 256});
  EXPECT_EQ(refusal({.tp = 8}, kBatch, spec),
            "[layout] tp = 8 with [model] heads = 24, kv_heads = 12, ffn = 60 and vocab = 256: "
            "must divide heads, kv_heads and ffn, and be at most vocab; use one of tp = 1, 2, 3, "
            "4, 6, 12");
  EXPECT_EQ(refusal({.tp = 12}, kBatch, spec), "");
}

TEST(CheckLayout, RefusesMoreTensorRanksThanTheVocabularyHasRows) {
  const ModelSpec spec = resolved({.layers = 2, .hidden = 64, .heads = 4, .ffn = 128, .vocab = 3});
  EXPECT_EQ(refusal({.tp = 4}, kBatch, spec),
            "[layout] tp = 4 with [model] heads = 4, kv_heads = 4, ffn = 128 and vocab = 3: must "
            "divide heads, kv_heads and ffn, and be at most vocab; use one of tp = 1, 2");
}

TEST(CheckLayout, RefusesSequenceParallelismOfOneTensorRank) {
  EXPECT_EQ(refusal({.sp = true}),
            "[layout] sp = 1 with tp = 1: must be 0 without tensor-parallel ranks to cut a "
            "sequence over; use sp = 0, or tp = 2 or more");
}

TEST(CheckLayout, NamesTheNearestSequencesThatSequenceParallelismCuts) {
  const Batch batch = {.seq = 15, .micro_batch = 2, .global_batch = 8};
  EXPECT_EQ(refusal({.tp = 4, .sp = true}, batch),
            "[layout] sp = 1 and tp = 4 with [batch] micro_batch = 2 and seq = 15: micro_batch * "
            "seq = 30 must be a multiple of tp; use seq = 14 or 16, or micro_batch = 4");
  EXPECT_EQ(refusal({.tp = 4, .sp = true}, {.seq = 14, .micro_batch = 2, .global_batch = 8}), "");
  EXPECT_EQ(refusal({.tp = 4, .sp = true}, {.seq = 15, .micro_batch = 4, .global_batch = 8}), "");
}

// known_faults A07
TEST(CheckLayout, NamesTheNearestSequencesThatContextParallelismCuts) {
  EXPECT_EQ(refusal({.cp = 2}, {.seq = 7, .global_batch = 8}),
            "[layout] cp = 2 with [batch] seq = 7: must be a multiple of 2 * cp = 4; use seq = 4 "
            "or 8");
  EXPECT_EQ(refusal({.cp = 4, .cp_comm = CpComm::kAllGather}, {.seq = 12, .global_batch = 8}),
            "[layout] cp = 4 with [batch] seq = 12: must be a multiple of 2 * cp = 8; use seq = 8 "
            "or 16");
  EXPECT_EQ(refusal({.cp = 16}, kBatch, small_llama(16)),
            "[layout] cp = 16 with [model] max_seq = 16: a sequence must have 2 * cp = 32 pieces; "
            "use cp = 8");
  EXPECT_EQ(refusal({.cp = 4}, kBatch), "");
}

TEST(CheckLayout, CutsTheSequenceOverCpBeforeTp) {
  EXPECT_EQ(refusal({.cp = 2, .tp = 4, .sp = true}, {.seq = 12, .global_batch = 8}),
            "[layout] sp = 1 and tp = 4 and cp = 2 with [batch] micro_batch = 1 and seq = 12: "
            "micro_batch * seq / cp = 6 must be a multiple of tp; use seq = 8 or 16, or "
            "micro_batch = 2");
  EXPECT_EQ(refusal({.cp = 2, .tp = 4, .sp = true}), "");
}

TEST(CheckLayout, NamesNoSequenceLongerThanTheModelAllows) {
  const Batch batch = {.seq = 15, .micro_batch = 1, .global_batch = 8};
  EXPECT_NE(refusal({.tp = 4, .sp = true}, batch, small_llama(15)).find("use seq = 12, or"),
            std::string::npos);
}

TEST(CheckLayout, RefusesPipelineFieldsOutOfRange) {
  EXPECT_EQ(refusal({.chunks = -1}),
            "[layout] chunks = -1: must be at least 0; use chunks = 0, the schedule's own number");
  EXPECT_EQ(refusal({.stages = {3, -1}}),
            "[layout] stages = 3, -1: must be numbers of layers, at least 0; correct them, or "
            "leave them out for stages of equal cost");
  const std::string rule = ": must be a name or a path without blanks and \":\"; use 1f1b";
  EXPECT_EQ(refusal({.schedule = ""}), "[layout] schedule = \"\"" + rule);
  EXPECT_EQ(refusal({.schedule = "a b.csv"}), "[layout] schedule = \"a b.csv\"" + rule);
  EXPECT_EQ(refusal({.schedule = "zb-v:2"}), "[layout] schedule = \"zb-v:2\"" + rule);
}

TEST(CheckLayout, RefusesABucketSizeThatIsNotPositiveAndFinite) {
  const std::string rule = ": must be above 0 and at most 1073741824 MiB; use 25";
  EXPECT_EQ(refusal({.bucket_mib = 0.0}), "[layout] bucket_mib = 0" + rule);
  EXPECT_EQ(refusal({.bucket_mib = -2.5}), "[layout] bucket_mib = -2.5" + rule);
  EXPECT_EQ(refusal({.bucket_mib = std::nan("")}), "[layout] bucket_mib = nan" + rule);
  EXPECT_EQ(refusal({.bucket_mib = std::numeric_limits<double>::infinity()}),
            "[layout] bucket_mib = inf" + rule);
}

TEST(CheckLayout, RefusesBatchFieldsOutOfRange) {
  EXPECT_EQ(refusal({}, {.seq = 0}), "[batch] seq = 0: must be from 1 to 2147483647; use 1");
  EXPECT_EQ(refusal({}, {.seq = 16, .micro_batch = -1}),
            "[batch] micro_batch = -1: must be from 1 to 2147483647; use 1");
  EXPECT_EQ(refusal({}, {.seq = 16, .global_batch = std::int64_t{1} << 40}),
            "[batch] global_batch = 1099511627776: must be from 1 to 2147483647; use 2147483647");
}

TEST(CheckLayout, RefusesASequenceLongerThanTheModelAllows) {
  EXPECT_EQ(refusal({}, {.seq = 33}, small_llama(32)),
            "[batch] seq = 33 with [model] max_seq = 32: a sequence must not be longer than "
            "max_seq; use seq = 32");
  EXPECT_EQ(refusal({}, {.seq = 32}, small_llama(32)), "");
}

TEST(CheckLayout, NamesTheNearestValidGlobalBatches) {
  EXPECT_EQ(refusal({.dp = 2}, {.seq = 16, .micro_batch = 2, .global_batch = 10}),
            "[batch] global_batch = 10 with micro_batch = 2 and dp = 2: must be a multiple of "
            "micro_batch * dp = 4; use global_batch = 8 or 12");
}

TEST(CheckLayout, NamesOnlyTheUpperGlobalBatchWhenThereIsNoLowerOne) {
  EXPECT_EQ(refusal({.dp = 2}, {.seq = 16, .micro_batch = 2, .global_batch = 3}),
            "[batch] global_batch = 3 with micro_batch = 2 and dp = 2: must be a multiple of "
            "micro_batch * dp = 4; use global_batch = 4");
}

// Ultra-Scale Playbook, "data parallelism": 4 Mi tokens a step at 4096 tokens a sequence.
TEST(Batch, FourMebiTokensTakeFourMicroBatchesOn128Ranks) {
  const Batch batch = {.seq = 4096, .micro_batch = 2, .global_batch = 1024};
  EXPECT_EQ(batch.tokens_per_step(), 4 * 1024 * 1024);
  EXPECT_EQ(batch.num_micro_batches({.dp = 128}), 4);
}

TEST(Batch, FourMebiTokensTakeOneMicroBatchOn512Ranks) {
  const Batch batch = {.seq = 4096, .micro_batch = 2, .global_batch = 1024};
  EXPECT_EQ(batch.num_micro_batches({.dp = 512}), 1);
}

// known_faults F04: 2 * 1 * 64 * 3, whatever tp and cp are.
TEST(Batch, TokensPerStepDoNotCountTensorOrContextRanks) {
  const Batch batch = {.seq = 64, .micro_batch = 1, .global_batch = 6};
  const Layout layout = {.dp = 2, .cp = 2, .tp = 2};
  EXPECT_EQ(batch.num_micro_batches(layout), 3);
  EXPECT_EQ(batch.tokens_per_step(), 384);
  EXPECT_EQ(layout.world(), 8);
}

TEST(Batch, ANumberOfMicroBatchesThatIsNotWholeIsABug) {
  const Batch batch = {.seq = 64, .micro_batch = 2, .global_batch = 10};
  EXPECT_THROW(static_cast<void>(batch.num_micro_batches({.dp = 2})), InternalError);
}

constexpr std::int64_t kGiga = 1'000'000'000;

TEST(ModelStateBytes, AreEighteenPerParameterInBf16) {
  EXPECT_EQ(model_state_bytes(7 * kGiga, true, 0, 64).total(), 126 * kGiga);
  EXPECT_EQ(model_state_bytes(70 * kGiga, true, 0, 1).total(), 1260 * kGiga);
}

TEST(ModelStateBytes, SplitIntoTheirKindsInBf16) {
  const StateBytes bytes = model_state_bytes(1000, true, 0, 1);
  EXPECT_EQ(bytes.parameters, 2000);
  EXPECT_EQ(bytes.gradients, 4000);
  EXPECT_EQ(bytes.master, 4000);
  EXPECT_EQ(bytes.moments, 8000);
}

TEST(ModelStateBytes, Zero1DividesMasterAndMoments) {
  EXPECT_EQ(model_state_bytes(6400, true, 1, 64).total(), 6400 * 6 + 6400 * 12 / 64);
}

TEST(ModelStateBytes, Zero2AlsoDividesGradients) {
  EXPECT_EQ(model_state_bytes(6400, true, 2, 64).total(), 6400 * 2 + 6400 * 16 / 64);
}

TEST(ModelStateBytes, Zero3DividesEverything) {
  EXPECT_EQ(model_state_bytes(6400, true, 3, 64).total(), 6400 * 18 / 64);
}

TEST(ModelStateBytes, AreSixteenPerParameterInFp32WithoutAMaster) {
  const StateBytes bytes = model_state_bytes(1000, false, 0, 4);
  EXPECT_EQ(bytes.total(), 16000);
  EXPECT_EQ(bytes.master, 0);
}

TEST(ModelStateBytes, InFp32TheZeroStagesDivideMomentsGradientsParameters) {
  EXPECT_EQ(model_state_bytes(6400, false, 1, 64).total(), 6400 * 8 + 6400 * 8 / 64);
  EXPECT_EQ(model_state_bytes(6400, false, 2, 64).total(), 6400 * 4 + 6400 * 12 / 64);
  EXPECT_EQ(model_state_bytes(6400, false, 3, 64).total(), 6400 * 16 / 64);
}

TEST(ModelStateBytes, AnUnevenShardIsTheFullestRanks) {
  EXPECT_EQ(model_state_bytes(10, true, 1, 4).master, 3 * 4);
}

}  // namespace
}  // namespace trireme
