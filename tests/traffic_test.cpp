// Bytes that each rank sends along each axis, in the closed forms of the literature.
#include "trireme/comm/traffic.h"

#include <gtest/gtest.h>

#include "layout_models.h"
#include "step_harness.h"

namespace trireme {
namespace {

constexpr std::int64_t kFloat = 4, kDouble = 8;

ModelSpec llama() {
  return layout_models::llama(32);
}

/// T = 12 tokens of 1 sequence a micro-batch, 8 micro-batches.
constexpr Batch kBatch{.seq = 12, .micro_batch = 1, .global_batch = 8};
constexpr std::int64_t kTokens = 12, kHidden = 24, kLayers = 4, kMicroBatches = 8;
constexpr std::int64_t kStream = kTokens * kHidden * kFloat;  ///< bytes of the residual stream

/// Bytes that one rank of n sends for an all-reduce, reduce-scatter or all-gather of `elems`.
std::int64_t all_reduce(std::int64_t elems, std::int64_t elem_bytes, int n, int rank) {
  return bytes_sent({.op = CommOp::kAllReduce,
                     .num_elems = elems,
                     .elem_bytes = elem_bytes,
                     .size = n,
                     .rank = rank});
}
constexpr std::int64_t one_way(std::int64_t bytes, int n) {
  return bytes * (n - 1) / n;
}

std::int64_t sent(const HarnessResult& run, int rank, const char* group) {
  const auto& groups = run.bytes_sent.at(static_cast<std::size_t>(rank));
  const auto found = groups.find(group);
  return found == groups.end() ? 0 : found->second;
}

/// Of the head (one chunk of all tokens): maxima, sums and labels' logits of each token.
std::int64_t head_bytes(int tp, int rank) {
  return all_reduce(kTokens, kFloat, tp, rank) + all_reduce(2 * kTokens, kFloat, tp, rank);
}

// Megatron-LM (arXiv:1909.08053, section 3): two all-reduces of the stream a layer forward and two
// backward; the embedding adds one forward, the head one backward.
TEST(BytesSent, TensorParallelismSendsFourAllReducesOfTheStreamALayer) {
  for (const int tp : {2, 4}) {
    const HarnessResult run = run_steps(llama(), {.tp = tp}, kBatch);
    for (int rank = 0; rank < tp; ++rank) {
      const std::int64_t stream = 2 * one_way(kStream, tp);
      EXPECT_EQ(sent(run, rank, "tp"),
                kMicroBatches * ((4 * kLayers + 2) * stream + head_bytes(tp, rank)) +
                    all_reduce(1, kDouble, tp, rank))  // the norm
          << "tp " << tp << ", rank " << rank;
      EXPECT_EQ(run.bytes_sent.at(static_cast<std::size_t>(rank)).size(), 1U);
    }
  }
}

// Korthikanti et al. (arXiv:2205.05198, section 4.2.2): an all-reduce is a reduce-scatter and an
// all-gather; gathering the two inputs of the weight gradients again adds two all-gathers a layer.
// The sums of the norms' gradients over tp, once a step, are small.
TEST(BytesSent, SequenceParallelismSendsAsMuchAndTheInputsOfWeightGradientsAgain) {
  for (const int tp : {2, 4}) {
    const HarnessResult run = run_steps(llama(), {.tp = tp, .sp = true}, kBatch);
    for (int rank = 0; rank < tp; ++rank) {
      const std::int64_t stream = one_way(kStream, tp);
      const std::int64_t norms = (2 * kLayers + 1) * all_reduce(kHidden, kFloat, tp, rank);
      EXPECT_EQ(sent(run, rank, "tp"),
                kMicroBatches * ((10 * kLayers + 4) * stream + head_bytes(tp, rank)) + norms +
                    all_reduce(1, kDouble, tp, rank))
          << "tp " << tp << ", rank " << rank;
    }
  }
}

// A stage sends the stream forward and its gradient backward, once for each micro-batch and edge.
TEST(BytesSent, PipelinesSendTheStreamOnceForEachEdgeAndMicroBatch) {
  const struct {
    const char* schedule;
    int pp, chunks;
    std::int64_t edges_of_first_rank;  ///< out of rank 0, forward and backward
  } cases[] = {{"gpipe", 4, 1, 1},
               {"1f1b", 4, 1, 1},
               {"zb-h1", 4, 1, 1},
               {"interleaved", 2, 2, 3},
               {"zb-v", 2, 2, 2}};
  for (const auto& test : cases) {
    const Layout layout{.pp = test.pp, .schedule = test.schedule, .chunks = test.chunks};
    const HarnessResult run = run_steps(llama(), layout, kBatch);
    std::int64_t all = 0;
    for (int rank = 0; rank < test.pp; ++rank) all += sent(run, rank, "pp");
    std::int64_t scalars = 0;  // loss and norm
    for (int rank = 0; rank < test.pp; ++rank) scalars += 2 * all_reduce(1, kDouble, test.pp, rank);
    const std::int64_t edges =
        std::string_view(test.schedule) == "zb-v" ? 2 * (test.pp - 1) : test.pp * test.chunks - 1;
    EXPECT_EQ(all, 2 * edges * kMicroBatches * kStream + scalars) << test.schedule;
    EXPECT_EQ(sent(run, 0, "pp"), test.edges_of_first_rank * kMicroBatches * kStream +
                                      2 * all_reduce(1, kDouble, test.pp, 0))
        << test.schedule;
  }
}

std::int64_t key_value_bytes(std::int64_t num_tokens, std::int64_t elem_bytes) {
  return num_tokens * 2 * llama().kv_width() * elem_bytes;
}

// Liu et al. (arXiv:2310.01889): n - 1 hops of a rank's keys and values forward, as many again
// backward with n hops of their gradients, in fp32, behind them. However many heads share a key.
TEST(BytesSent, RingsSendKeysAndValuesOnceForEachOtherRankAndDirection) {
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    for (const int cp : {2, 3}) {
      HarnessOptions options;
      options.compute = compute;
      options.eval_every = 1;
      const HarnessResult run = run_steps(llama(), {.cp = cp}, kBatch, options);
      const std::int64_t own = key_value_bytes(kTokens / cp, dtype_bytes(compute));
      const std::int64_t gradients = key_value_bytes(kTokens / cp, kFloat);
      for (int rank = 0; rank < cp; ++rank) {
        const std::int64_t train = 2 * (cp - 1) * own + cp * gradients, eval = (cp - 1) * own;
        EXPECT_EQ(sent(run, rank, "cp"), kMicroBatches * kLayers * (train + eval))
            << "cp " << cp << ", rank " << rank;
      }
    }
  }
}

// All-gathers forward and backward, and a reduce-scatter of the gradients: n - 1 shares each.
TEST(BytesSent, GatheringKeysAndValuesSendsThreeTimesTheShareOfEachOtherRank) {
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    for (const int cp : {2, 3}) {
      HarnessOptions options;
      options.compute = compute;
      const Layout layout{.cp = cp, .cp_comm = CpComm::kAllGather};
      const HarnessResult run = run_steps(llama(), layout, kBatch, options);
      const std::int64_t own = key_value_bytes(kTokens / cp, dtype_bytes(compute));
      for (int rank = 0; rank < cp; ++rank)
        EXPECT_EQ(sent(run, rank, "cp"), kMicroBatches * kLayers * 3 * (cp - 1) * own);
    }
  }
}

TEST(BytesSent, ContextParallelismDividesWhatPipelinesAndTensorParallelismSend) {
  const Layout layout{.pp = 2, .cp = 2, .tp = 2};
  const HarnessResult run = run_steps(llama(), layout, kBatch);
  const std::int64_t scalars = 2 * all_reduce(1, kDouble, 2, 0);  // loss and norm
  EXPECT_EQ(sent(run, 0, "pp"), kMicroBatches * kStream / 2 + scalars);
  const std::int64_t sums = 4 * kLayers / 2 + 1;  // of half the layers, and the embedding
  EXPECT_EQ(sent(run, 0, "tp"), kMicroBatches * sums * kStream / 2 + all_reduce(1, kDouble, 2, 0));
}

TEST(BytesSent, SequenceParallelismDividesWhatPipelinesSend) {
  const HarnessResult whole = run_steps(llama(), {.pp = 2, .tp = 2}, kBatch);
  const HarnessResult cut = run_steps(llama(), {.pp = 2, .tp = 2, .sp = true}, kBatch);
  for (int rank = 0; rank < 4; ++rank) {
    const std::int64_t scalars = 2 * all_reduce(1, kDouble, 2, rank / 2);
    EXPECT_EQ(sent(whole, rank, "pp"), kMicroBatches * kStream + scalars);
    EXPECT_EQ(sent(cut, rank, "pp"), kMicroBatches * kStream / 2 + scalars);
  }
}

}  // namespace
}  // namespace trireme
