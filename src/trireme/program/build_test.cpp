#include "trireme/program/build.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/program/place.h"
#include "trireme/program/steps.h"
#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

constexpr std::int64_t kFloatBytes = 4;

BuildRequest request_of(Layout layout, std::int64_t num_micro_batches = 1,
                        ModelSpec spec = small_llama()) {
  return small_request(layout, {.seq = 8, .global_batch = layout.dp * num_micro_batches}, spec);
}

ModelSpec one_layer() {
  ModelSpec spec = small_llama();
  spec.layers = 1;
  return spec;
}

const std::vector<Instruction>& body(const Program& program, std::string_view name) {
  return program.at(*program.find_template(name)).instructions;
}

/// "FWD QKV 0": operation, part and layer.
std::string name_of(const Instruction& instruction) {
  std::string name(op_name(instruction.op));
  if (instruction.part != Part::kNone) name += fmt::format(" {}", part_name(instruction.part));
  if (instruction.layer >= 0) name += fmt::format(" {}", instruction.layer);
  return name;
}
std::vector<std::string> names(const std::vector<Instruction>& instructions) {
  std::vector<std::string> result;
  result.reserve(instructions.size());
  for (const Instruction& instruction : instructions) result.push_back(name_of(instruction));
  return result;
}
std::int64_t count(const Program& program, Op op) {
  std::int64_t total = 0;
  for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
    total += instruction.op == op ? 1 : 0;
  });
  return total;
}
bool is_gradient(const Program& program, const Range& range) {
  return program.buffer(range.buffer).kind == MemoryKind::kGradients;
}

TEST(BuildTrain, HasOneCallPerMicroBatch) {
  const Program program = build_train(request_of({.dp = 2}, 4));
  std::vector<int> micro_batches;
  for (const Call& call : program.calls) {
    if (call.micro_batch >= 0) micro_batches.push_back(call.micro_batch);
  }
  EXPECT_EQ(micro_batches, (std::vector<int>{0, 1, 2, 3}));
}

TEST(BuildTrain, RunsTheMicroBatchOfOneLayerInThisOrder) {
  const Program program = build_train(request_of({}, 1, one_layer()));
  EXPECT_EQ(names(body(program, "micro.first")),
            (std::vector<std::string>{
                "LOAD",         "FWD EMBED",      "FWD ATTN_NORM 0",  "FWD QKV 0",
                "FWD ROPE 0",   "FWD ATTN 0",     "FWD PROJ 0",       "FWD MLP_NORM 0",
                "FWD MLP_UP 0", "FWD ACT 0",      "FWD MLP_DOWN 0",   "FWD FINAL_NORM",
                "BWD HEAD",     "BWD FINAL_NORM", "BWD_I MLP_DOWN 0", "BWD_W MLP_DOWN 0",
                "BWD ACT 0",    "BWD_I MLP_UP 0", "BWD_W MLP_UP 0",   "BWD MLP_NORM 0",
                "BWD_I PROJ 0", "BWD_W PROJ 0",   "BWD ATTN 0",       "BWD ROPE 0",
                "BWD_I QKV 0",  "BWD_W QKV 0",    "BWD ATTN_NORM 0",  "BWD EMBED"}));
}

TEST(BuildTrain, CountsTokensFirstAndUpdatesLast) {
  const Program program = build_train(request_of({.dp = 2}, 1, one_layer()));
  EXPECT_EQ(names(body(program, "begin")),
            (std::vector<std::string>{"ZERO", "COUNT", "ALL_REDUCE", "INVERSE", "ZERO", "ZERO"}));
  std::vector<std::string> end = {"ALL_REDUCE"};  // of the loss
  end.insert(end.end(), 9, "NORM_SQ");
  end.push_back("CLIP");
  end.insert(end.end(), 9, "OPT_STEP");
  EXPECT_EQ(names(body(program, "end")), end);
}

TEST(BuildTrain, WritesGradientsInTheFirstMicroBatchAndAddsInTheOthers) {
  const Program program = build_train(request_of({}, 3));
  for (const auto& [name, access] :
       {std::pair("micro.first", Access::kWrite), std::pair("micro.next", Access::kAccumulate)}) {
    int num_gradients = 0;
    for (const Instruction& instruction : body(program, name)) {
      for (const Use& use : instruction.uses) {
        if (!is_gradient(program, use.range)) continue;
        EXPECT_EQ(use.access, access) << name << ' ' << name_of(instruction);
        ++num_gradients;
      }
    }
    EXPECT_EQ(num_gradients, 15);  // table, 2 layers of 6, final norm, head
  }
}

// Tensor and pipeline parallelism
// --------------------------------------------------------------------------------------------------

ModelSpec even_heads(ModelSpec spec) {
  spec.heads = spec.kv_heads = 2;
  return spec;
}

TEST(TensorParallel, SumsBehindRowParallelPartsAndInputGradients) {
  const Program program = build_train(request_of({.tp = 2}, 1, even_heads(one_layer())));
  EXPECT_EQ(names(body(program, "micro.first")), (std::vector<std::string>{"LOAD",
                                                                           "FWD EMBED",
                                                                           "ALL_REDUCE",
                                                                           "FWD ATTN_NORM 0",
                                                                           "FWD QKV 0",
                                                                           "FWD ROPE 0",
                                                                           "FWD ATTN 0",
                                                                           "FWD PROJ 0",
                                                                           "ALL_REDUCE",
                                                                           "FWD MLP_NORM 0",
                                                                           "FWD MLP_UP 0",
                                                                           "FWD ACT 0",
                                                                           "FWD MLP_DOWN 0",
                                                                           "ALL_REDUCE",
                                                                           "FWD FINAL_NORM",
                                                                           "BWD HEAD_LOGITS",
                                                                           "ALL_REDUCE",
                                                                           "BWD HEAD_SUMS",
                                                                           "ALL_REDUCE",
                                                                           "BWD HEAD_LOSS",
                                                                           "ALL_REDUCE",
                                                                           "BWD FINAL_NORM",
                                                                           "BWD_I MLP_DOWN 0",
                                                                           "BWD_W MLP_DOWN 0",
                                                                           "BWD ACT 0",
                                                                           "BWD_I MLP_UP 0",
                                                                           "ALL_REDUCE",
                                                                           "BWD_W MLP_UP 0",
                                                                           "BWD MLP_NORM 0",
                                                                           "BWD_I PROJ 0",
                                                                           "BWD_W PROJ 0",
                                                                           "BWD ATTN 0",
                                                                           "BWD ROPE 0",
                                                                           "BWD_I QKV 0",
                                                                           "ALL_REDUCE",
                                                                           "BWD_W QKV 0",
                                                                           "BWD ATTN_NORM 0",
                                                                           "BWD EMBED"}));
}

TEST(TensorParallel, TheBackwardSumOverlapsTheWeightGradient) {
  for (const bool sp : {false, true}) {
    const Program program =
        build_train(request_of({.tp = 2, .sp = sp}, 1, even_heads(one_layer())));
    const auto& instructions = body(program, "micro.first");
    std::size_t input = 0;
    while (name_of(instructions[input]) != "BWD_I MLP_UP 0") ++input;
    EXPECT_EQ(instructions[input + 1].stream, Stream::kTensor);
    const std::size_t weight = input + 2;
    EXPECT_EQ(name_of(instructions[weight]), "BWD_W MLP_UP 0");
    for (const Wait& wait : instructions[weight].waits)
      EXPECT_NE(wait.instruction, static_cast<int>(input) + 1);
    const auto& norm = instructions[weight + 1];
    EXPECT_EQ(name_of(norm), "BWD MLP_NORM 0");
    EXPECT_EQ(norm.waits.front().instruction, static_cast<int>(input) + 1);
  }
}

/// "F0 F1 B0": the computations of a rank's calls.
std::string computations(const Program& program) {
  std::string text;
  for (const Call& call : program.calls) {
    const std::string& name = program.at(call.template_index).name;
    if (call.micro_batch < 0 || name.find("send") != std::string::npos ||
        name.find("recv") != std::string::npos)
      continue;
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : " ", name[name.find('.') + 1], call.micro_batch);
  }
  return text;
}

TEST(PipelineParallel, CallsTheStagesOfARankAsTheScheduleSays) {
  const Program first = build_train(request_of({.pp = 2, .schedule = "1f1b"}, 3));
  EXPECT_EQ(computations(first), "F0 F1 B0 F2 B1 B2");
  BuildRequest request = request_of({.pp = 2, .schedule = "zb-h1"}, 3);
  request.rank = 1;
  EXPECT_EQ(computations(build_train(request)), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
}

TEST(PipelineParallel, TheInputHalfKeepsTheGradientsThatItChangesInPlace) {
  const Program program = build_train(request_of({.pp = 2, .schedule = "zb-h1"}, 2));
  EXPECT_EQ(
      names(body(program, "S0.I.first")),
      (std::vector<std::string>{"BWD_I MLP_DOWN 0", "COPY", "BWD ACT 0", "BWD_I MLP_UP 0",
                                "BWD MLP_NORM 0", "BWD_I PROJ 0", "COPY", "BWD ATTN 0",
                                "BWD ROPE 0", "BWD_I QKV 0", "BWD ATTN_NORM 0", "BWD EMBED"}));
  EXPECT_EQ(names(body(program, "S0.W.first")),
            (std::vector<std::string>{"BWD_W MLP_DOWN 0", "BWD_W MLP_UP 0", "BWD_W PROJ 0",
                                      "BWD_W QKV 0"}));
}

// Buckets and reductions
// --------------------------------------------------------------------------------------------------

TEST(Bucket, HoldsParametersInTheOrderInWhichTheirGradientsAreComplete) {
  const Program program = build_train(request_of({.dp = 2}, 1, one_layer()));
  const ParameterTable table(program.request.spec);
  std::vector<ParameterRole> roles;
  for (const std::size_t row : rows_in_root_order(program)) roles.push_back(table.rows()[row].role);
  EXPECT_EQ(
      roles,
      (std::vector<ParameterRole>{
          ParameterRole::kHeadWeight, ParameterRole::kFinalNormWeight, ParameterRole::kDownWeight,
          ParameterRole::kUpWeight, ParameterRole::kMlpNormWeight, ParameterRole::kProjWeight,
          ParameterRole::kQkvWeight, ParameterRole::kAttnNormWeight, ParameterRole::kTokenTable}));
}

/// Bytes of a kind of state.
std::int64_t bytes_of(const Program& program, MemoryKind kind) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) bytes += buffer.kind == kind ? buffer.bytes : 0;
  return bytes;
}

// ZeRO (arXiv:1910.02054, section 3.1): 2 + 4 + 12 bytes a parameter; ZeRO-1 divides the last 12.
TEST(StateBytes, AreEighteenAParameterInBf16AndSixAndTwelveOverNWithZero1) {
  for (const int zero : {0, 1}) {
    BuildRequest request = small_request({.dp = 4, .zero = zero}, {.seq = 8, .global_batch = 4});
    request.compute = DType::kBf16;
    const Program program = build_train(request);
    const std::int64_t elems = roots_of(program).elems.at(0);
    const std::int64_t own = zero == 1 ? elems / 4 : elems;
    EXPECT_EQ(bytes_of(program, MemoryKind::kParameters), 2 * elems);
    EXPECT_EQ(bytes_of(program, MemoryKind::kGradients), 4 * elems);
    EXPECT_EQ(bytes_of(program, MemoryKind::kMaster), 4 * own);
    EXPECT_EQ(bytes_of(program, MemoryKind::kMoments), 8 * own);
  }
}

TEST(Bucket, ClosesOnceItHoldsItsCapacityAndIsPaddedToAlignedShards) {
  // Bytes in completion order: head 1104, norm 48, down 960, up 1920, norm 48, proj 576, qkv 960,
  // norm 48, table 1104. A bucket closes at 1048 bytes and more; shards of 64 bytes * 3 ranks.
  const Program program = build_train(request_of({.dp = 3, .bucket_mib = 0.001}, 1, one_layer()));
  const ParameterRoots roots = roots_of(program);
  EXPECT_EQ(roots.elems, (std::vector<std::int64_t>{288, 768, 432, 288}));
  std::vector<std::int64_t> used;
  for (const ParameterSlot& slot : program.parameters) {
    const auto root =
        static_cast<std::size_t>(slot.parameter.buffer - *program.find_buffer("params.0")) / 2;
    used.resize(std::max(used.size(), root + 1), 0);
    used[root] += slot.parameter.bytes;
  }
  EXPECT_EQ(used, (std::vector<std::int64_t>{1104, 48 + 960 + 1920, 48 + 576 + 960, 48 + 1104}));
}

TEST(Bucket, ClosesBehindTheSameParametersOnAllTensorParallelRanks) {
  // 1 and 2 rows of 48 bytes of the vocabulary; the head alone fills a bucket on rank 1 only.
  ModelSpec spec = one_layer();
  spec.heads = spec.kv_heads = 2;
  spec.vocab = 3;
  BuildRequest request = request_of({.dp = 2, .tp = 2, .bucket_mib = 96.0 / (1 << 20)}, 1, spec);
  const Program first = build_train(request);
  request.rank = 1;
  const Program second = build_train(request);
  EXPECT_EQ(num_roots(first), num_roots(second));
  EXPECT_EQ(rows_in_root_order(first), rows_in_root_order(second));
  for (std::size_t row = 0; row < first.parameters.size(); ++row) {
    EXPECT_EQ(first.buffer(first.parameters[row].parameter.buffer).name,
              second.buffer(second.parameters[row].parameter.buffer).name);
  }
}

/// Position of the last instruction that writes into `range`.
int last_writer(const std::vector<Instruction>& instructions, const Range& range) {
  int last = -1;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    for (const Use& use : instructions[i].uses) {
      const bool overlaps = use.range.buffer == range.buffer &&
                            use.range.offset < range.offset + range.bytes &&
                            range.offset < use.range.offset + use.range.bytes;
      if (use.writes() && overlaps) last = static_cast<int>(i);
    }
  }
  return last;
}

TEST(OverlapReductions, EachWaitsForTheLastWriteIntoItsBucketAndNothingElse) {
  const Program program = build_train(request_of({.dp = 2, .bucket_mib = 0.001}, 2));
  const auto& backward = body(program, "micro.next");
  const auto& reductions = body(program, "reduce");
  const auto call = std::find_if(program.calls.begin(), program.calls.end(), [&](const Call& c) {
    return program.at(c.template_index).name == "reduce";
  });
  ASSERT_EQ(std::ssize(reductions), num_roots(program));
  EXPECT_GT(reductions.size(), 2U);
  std::vector<CallWait> due;
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    EXPECT_EQ(reductions[i].op, Op::kAllReduce);
    due.push_back(
        {.instruction = static_cast<int>(i),
         .wait = {.stream = Stream::kCompute,
                  .calls_back = 1,
                  .instruction = last_writer(backward, reductions[i].uses.front().range)}});
  }
  EXPECT_EQ(call->waits, due);
}

TEST(AllReduceGradients, ReducesOnceAStepHoweverManyMicroBatches) {
  for (const DpSync sync : {DpSync::kNaive, DpSync::kBucketed, DpSync::kOverlapped}) {
    const Program program =
        build_train(request_of({.dp = 2, .dp_sync = sync, .bucket_mib = 0.001}, 5));
    EXPECT_EQ(count(program, Op::kAllReduce), num_roots(program) + 2);  // token count and loss
  }
}

TEST(AllReduceGradients, NaiveUsesOneBucket) {
  const Program program =
      build_train(request_of({.dp = 2, .dp_sync = DpSync::kNaive, .bucket_mib = 0.001}));
  EXPECT_EQ(num_roots(program), 1);
}

TEST(BuildTrain, OneRankDoesNotCommunicate) {
  const Program program = build_train(request_of({.zero = 1}, 3));
  for_each_instruction(program, [](const Call&, int, const Instruction& instruction, int) {
    EXPECT_FALSE(instruction.comm.has_value());
    EXPECT_EQ(instruction.stream, Stream::kCompute);
    EXPECT_TRUE(instruction.waits.empty());
  });
}

// ZeRO-1
// --------------------------------------------------------------------------------------------------

Program sharded(int rank) {
  BuildRequest request = request_of({.dp = 4, .zero = 1, .bucket_mib = 0.001}, 2);
  request.rank = rank;
  return build_train(request);
}

TEST(ShardOptimizer, UpdatesItsOwnShardOfEachBucket) {
  for (int rank = 0; rank < 4; ++rank) {
    const Program program = sharded(rank);
    for (const Instruction& instruction : body(program, "end")) {
      if (instruction.op != Op::kOptStep) continue;
      const Range& range = instruction.find(Role::kParameter)->range;
      const Shard own = shard_of(program.buffer(range.buffer).bytes, 4, rank);
      EXPECT_GE(range.offset, own.begin);
      EXPECT_LE(range.offset + range.bytes, own.end);
      EXPECT_EQ(instruction.find(Role::kMoment1)->range.offset, range.offset - own.begin);
    }
  }
}

TEST(ShardOptimizer, RanksTogetherUpdateEveryByteOnce) {
  std::int64_t updated_bytes = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const Program program = sharded(rank);
    for (const Instruction& instruction : body(program, "end")) {
      if (instruction.op == Op::kOptStep)
        updated_bytes += instruction.find(Role::kParameter)->range.bytes;
    }
  }
  EXPECT_EQ(updated_bytes, ParameterTable(small_llama()).num_elems() * kFloatBytes);
}

TEST(ShardOptimizer, KeepsOneShardOfTheMoments) {
  const Program whole = build_train(request_of({.dp = 4, .bucket_mib = 0.001}));
  const Program shard = sharded(1);
  const auto moments = [](const Program& program) {
    return place({&program}).kind_bytes.at(static_cast<std::size_t>(MemoryKind::kMoments));
  };
  EXPECT_EQ(moments(shard) * 4, moments(whole));
}

TEST(ShardOptimizer, ScattersAndGathersEachBucketOnce) {
  const Program program = sharded(0);
  EXPECT_EQ(count(program, Op::kReduceScatter), num_roots(program));
  EXPECT_EQ(count(program, Op::kAllGather), num_roots(program));
  EXPECT_EQ(count(program, Op::kAllReduce), 3);  // token count, loss and norm
}

// Recomputation
// --------------------------------------------------------------------------------------------------

/// Bytes that the forward parts of a layer write and a later RECOMP or backward part reads.
std::int64_t kept_bytes(Recompute recompute, int layer) {
  const Program program = build_train(request_of({.recompute = recompute}));
  const auto& instructions = body(program, "micro.first");
  std::int64_t kept = 0;
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    bool is_written = false, is_kept = false;
    for (const Instruction& instruction : instructions) {
      for (const Use& use : instruction.uses) {
        if (use.range.buffer != static_cast<BufferId>(id)) continue;
        const bool is_first = instruction.op == Op::kForward && instruction.layer == layer;
        is_written = is_written || (is_first && use.writes());
        is_kept = is_kept || (instruction.op != Op::kForward && use.reads());
      }
    }
    const bool is_activation = program.buffers[id].content == Content::kTransient;
    if (is_activation && is_written && is_kept) kept += program.buffers[id].bytes;
  }
  return kept;
}

// C hidden, H heads, G key/value heads, D head_dim, F ffn, N tokens: elements of one llama layer.
constexpr std::int64_t kC = 12, kH = 3, kG = 1, kD = 4, kF = 20, kN = 8;

TEST(Recompute, NoneKeepsBothStreamsNormsAttentionAndFeedForward) {
  const std::int64_t norms = 2 * (kC + kC + 1);  // h, y and statistics of each norm
  const std::int64_t attention = 2 * kH * kD + 2 * kG * kD + kH;  // q, output; k, v; lse
  const std::int64_t feed_forward = 2 * kF + kF;
  EXPECT_EQ(kept_bytes(Recompute::kNone, 1), kFloatBytes * kN * (norms + attention + feed_forward));
}

TEST(Recompute, SelectiveDropsNormOutputsAndTheActivation) {
  EXPECT_EQ(kept_bytes(Recompute::kNone, 1) - kept_bytes(Recompute::kSelective, 1),
            kFloatBytes * kN * (2 * kC + kF));
}

TEST(Recompute, FullKeepsTheInputOfTheLayerAndItsStatistics) {
  EXPECT_EQ(kept_bytes(Recompute::kFull, 1), kFloatBytes * kN * (kC + 1));
}

TEST(Recompute, FullRunsAllButTheBranchOutputAgain) {
  const Program program = build_train(request_of({.recompute = Recompute::kFull}));
  std::vector<std::string> again;
  for (const Instruction& instruction : body(program, "micro.first")) {
    if (instruction.op == Op::kRecompute && instruction.layer == 1)
      again.push_back(name_of(instruction));
  }
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, (std::vector<std::string>{"RECOMP ACT 1", "RECOMP ATTN 1", "RECOMP ATTN_NORM 1",
                                             "RECOMP MLP_NORM 1", "RECOMP MLP_UP 1",
                                             "RECOMP PROJ 1", "RECOMP QKV 1", "RECOMP ROPE 1"}));
}

// Memory
// --------------------------------------------------------------------------------------------------

TEST(Accumulate, MoreMicroBatchesAddCallsButNoInstructionsAndNoMemory) {
  const Program few = build_train(request_of({.dp = 2}, 3));
  const Program many = build_train(request_of({.dp = 2}, 64));
  EXPECT_EQ(few.templates, many.templates);
  EXPECT_EQ(many.calls.size() - few.calls.size(), 61U);
  EXPECT_EQ(place({&few}).arena_bytes, place({&many}).arena_bytes);
}

TEST(BuildEval, FindsTheParametersWhereTrainingHasThem) {
  const Program train = build_train(request_of({.dp = 2, .bucket_mib = 0.001}));
  const Program eval = build_eval(train.request, 2, roots_of(train));
  const Placement placement = place({&train, &eval});
  for (std::size_t row = 0; row < train.parameters.size(); ++row) {
    const Range& of_train = train.parameters[row].parameter;
    const Range& of_eval = eval.parameters[row].parameter;
    EXPECT_EQ(placement.offset(0, of_train.buffer) + of_train.offset,
              placement.offset(1, of_eval.buffer) + of_eval.offset);
  }
}

TEST(BuildGeneration, SharesTheKeyValueCaches) {
  const Program prefill = build_prefill(request_of({})), decode = build_decode(request_of({}));
  const Placement placement = place({&prefill, &decode});
  for (const char* const name : {"cache.L0.k", "cache.L1.v"}) {
    EXPECT_EQ(placement.offset(0, *prefill.find_buffer(name)),
              placement.offset(1, *decode.find_buffer(name)));
  }
}

}  // namespace
}  // namespace trireme
