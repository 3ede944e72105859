// Public bug reports about layouts, as tests; each names its source.
#include <atomic>
#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "layout_models.h"
#include "step_harness.h"
#include "trireme/base/errors.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxSeq = 160;

ModelSpec gpt2() {
  return layout_models::gpt2(kMaxSeq);
}
ModelSpec llama(std::int64_t vocab) {
  return layout_models::llama(vocab, kMaxSeq);
}

constexpr Batch kBatch{.seq = 12, .micro_batch = 1, .global_batch = 8};

void fill_head_with_zeros(ModelState& state) {
  state.initialize(7);
  for (const StateTensor& tensor : state.tensors(StateKind::kParameter, "", "")) {
    if (tensor.name != "lm_head.weight") continue;
    const auto shape = state.spec_of(tensor).shape;
    state.store(tensor, std::vector<float>(static_cast<std::size_t>(shape[0] * shape[1]), 0.0F));
  }
}

// NVIDIA/Megatron-LM #1754: columns that pad the vocabulary joined the softmax.
TEST(ShardedVocabulary, OfZerosGivesTheLogarithmOfItsSize) {
  HarnessOptions options;
  options.fill = fill_head_with_zeros;
  options.sample = [](std::int64_t, std::span<std::int32_t> tokens,
                      std::span<std::int32_t> labels) {
    for (std::int32_t& token : tokens) token = 1;
    for (std::size_t t = 0; t < labels.size(); ++t)
      labels[t] = static_cast<std::int32_t>((t * 3) % 5);
  };
  for (const std::int64_t vocab : {5, 50257}) {
    for (const int tp : {1, 2, 4}) {
      const HarnessResult run =
          run_steps(llama(vocab), {.tp = tp}, {.seq = 6, .global_batch = 2}, options);
      EXPECT_NEAR(run.losses.front(), std::log(static_cast<double>(vocab)), 2e-6)
          << "vocabulary " << vocab << ", tp " << tp;
    }
  }
}

// IST-DASLab/llmq 0766aa3, InfiniTrain d2ee257: chunks of the output head were right for one shape.
TEST(ShardedHead, OfSeveralChunksOfTokensEqualsOneRank) {
  const Batch batch{
      .seq = 150, .micro_batch = 2, .global_batch = 4};  // chunks of 256 and 44 tokens
  const HarnessOptions options{.steps = 2, .eval_every = 2};
  for (const ModelSpec& spec : {llama(31), gpt2()}) {
    const HarnessResult one = run_steps(spec, {}, batch, options);
    for (const Layout& layout :
         {Layout{.tp = 2}, Layout{.tp = 4, .sp = true}, Layout{.pp = 2, .tp = 2}}) {
      const HarnessResult run = run_steps(spec, layout, batch, options);
      for (std::size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(run.losses[i], one.losses[i], 1e-5);
      EXPECT_NEAR(run.eval_losses.front(), one.eval_losses.front(), 1e-5);
      const TensorError error = largest_error(run.first_gradients, one.first_gradients);
      EXPECT_LE(error.error, 2e-5) << error.name << " under " << layout_text(layout, batch);
    }
  }
}

// NVIDIA/Megatron-LM #673 and #906 (A05): the loss was scaled by cp, gradients by 1/cp.
TEST(ContextParallelism, ScalesNeitherLossNorGradients) {
  const Batch batch{.seq = 32, .micro_batch = 1, .global_batch = 8};
  const auto expect_equal = [&](const Layout& layout, const Layout& other) {
    const HarnessResult a = run_steps(llama(31), layout, batch);
    const HarnessResult b = run_steps(llama(31), other, batch);
    EXPECT_NEAR(b.losses.front() / a.losses.front(), 1.0, 1e-6);
    EXPECT_NEAR(b.grad_norms.front() / a.grad_norms.front(), 1.0, 1e-6);
  };
  for (const CpComm comm : {CpComm::kRing, CpComm::kAllGather}) {
    expect_equal({.dp = 8}, {.dp = 2, .cp = 4, .cp_comm = comm});
    expect_equal({.dp = 2}, {.dp = 1, .cp = 2, .cp_comm = comm});
  }
}

// Ring attention merges blocks of 64 queries and keys, and of less where a piece ends.
TEST(ContextParallelism, OfPiecesLongerThanABlockEqualsOneRank) {
  const Batch batch{.seq = 156, .micro_batch = 1, .global_batch = 2};  // pieces of 39 or 26
  const HarnessOptions options{.steps = 2, .eval_every = 2};
  for (const ModelSpec& spec : {llama(31), gpt2()}) {
    const HarnessResult one = run_steps(spec, {}, batch, options);
    for (const CpComm comm : {CpComm::kRing, CpComm::kAllGather}) {
      for (const int cp : {1, 2, 3}) {
        const Layout layout{.cp = cp, .cp_comm = comm};
        const HarnessResult run = run_steps(spec, layout, batch, options);
        for (std::size_t i = 0; i < one.losses.size(); ++i)
          EXPECT_NEAR(run.losses[i], one.losses[i], 1e-5);
        EXPECT_NEAR(run.eval_losses.front(), one.eval_losses.front(), 1e-5);
        const TensorError error = largest_error(run.first_gradients, one.first_gradients);
        EXPECT_LE(error.error, 2e-5) << error.name << " under " << layout_text(layout, batch);
      }
    }
  }
}

// EleutherAI/gpt-neox #1373 and others: recomputation drew new dropout masks.
TEST(Recomputation, ChangesNoBitUnderTensorParallelismAndPipelines) {
  const HarnessOptions options{.steps = 5};
  for (const Layout& layout :
       {Layout{.tp = 2}, Layout{.tp = 2, .sp = true}, Layout{.pp = 2, .tp = 2, .schedule = "zb-h1"},
        Layout{.pp = 2, .tp = 2, .sp = true, .schedule = "zb-v"}}) {
    const HarnessResult none = run_steps(gpt2(), layout, kBatch, options);
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      Layout other = layout;
      other.recompute = recompute;
      const HarnessResult run = run_steps(gpt2(), other, kBatch, options);
      EXPECT_EQ(run.losses, none.losses) << layout_text(other, kBatch);
      EXPECT_EQ(first_difference(run.weights, none.weights), "") << layout_text(other, kBatch);
    }
  }
}

// pytorch/torchtitan #775 and others: pipelines hung with fewer micro-batches than stages.
TEST(FewMicroBatches, RunAsOnOneRankOrAreRefusedWithBothNumbers) {
  int num_run = 0, num_refused = 0;
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const std::int64_t num_micro_batches : {1, 2, 3}) {
      const Batch batch{.seq = 8, .micro_batch = 1, .global_batch = num_micro_batches};
      Layout layout{.pp = kind.chunks == 1 ? 4 : 2, .schedule = std::string(kind.name)};
      try {
        const HarnessResult run = run_steps(llama(31), layout, batch);
        const HarnessResult one = run_steps(llama(31), {}, batch);
        EXPECT_NEAR(run.losses.front(), one.losses.front(), 1e-6) << kind.name;
        EXPECT_NEAR(run.grad_norms.front(), one.grad_norms.front(), 1e-5) << kind.name;
        ++num_run;
      } catch (const UsageError& refusal) {
        const std::string text = refusal.what();
        const std::string both = "pp = " + std::to_string(layout.pp) + " and " +
                                 std::to_string(num_micro_batches) + " micro-batches";
        EXPECT_NE(text.find(both), std::string::npos) << text;
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_run, 10);
  EXPECT_GT(num_refused, 5);
}

// pytorch/pytorch #17113 and others: one rank died and the others waited for ever.
TEST(Failure, OfOneRankEndsPipelinesAndTensorGroups) {
  for (int failing = 0; failing < 4; ++failing) {
    HarnessOptions options{.steps = 3};
    options.fill = [](ModelState& state) { state.initialize(7); };
    std::atomic<int> arrivals{0};
    options.on_run = [&](int step, bool begins) {
      if (step == 1 && begins && arrivals++ == failing)
        throw std::runtime_error("a rank fails in step 2");
    };
    try {
      static_cast<void>(run_steps(llama(31), {.pp = 2, .tp = 2}, kBatch, options));
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "a rank fails in step 2");
    }
  }
}

}  // namespace
}  // namespace trireme
