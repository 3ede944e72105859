// What an execution sends, how it fails, and what the sanitizers must see.
#include <cstdlib>
#include <stdexcept>

#include <gtest/gtest.h>

#include "step_harness.h"
#include "trireme/base/errors.h"
#include "trireme/comm/traffic.h"
#include "trireme/execute/operand_check.h"
#include "trireme/program/build.h"

namespace trireme {
namespace {

/// Bytes of all gradient roots, padding included.
std::int64_t gradient_bytes(const Layout& layout, const Batch& batch) {
  const Program program = build_train({.spec = small_llama(), .layout = layout, .batch = batch});
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind == MemoryKind::kGradients) bytes += buffer.bytes;
  }
  return bytes;
}

std::int64_t scalar_bytes(int dp, int rank) {
  return bytes_sent(
      {.op = CommOp::kAllReduce, .num_elems = 1, .elem_bytes = 8, .size = dp, .rank = rank});
}

TEST(BytesSent, DataParallelSendsTwiceTheGradientsTimesNMinus1OverN) {
  for (const int dp : {2, 3, 4}) {
    for (const DpSync sync : {DpSync::kNaive, DpSync::kOverlapped}) {
      const Layout layout{.dp = dp, .dp_sync = sync, .bucket_mib = 0.002};
      const Batch batch{.seq = 8, .micro_batch = 1, .global_batch = 12};
      const HarnessResult run = run_steps(small_llama(), layout, batch);
      for (int rank = 0; rank < dp; ++rank) {  // two scalars: token count and loss
        EXPECT_EQ(run.bytes_sent[static_cast<std::size_t>(rank)].at("dp"),
                  2 * gradient_bytes(layout, batch) * (dp - 1) / dp + 2 * scalar_bytes(dp, rank))
            << "dp " << dp << ", rank " << rank;
      }
    }
  }
}

TEST(BytesSent, Zero1SendsAsMuchAsDataParallelAndTheNorm) {
  for (const int dp : {2, 3, 4}) {
    const Layout layout{.dp = dp, .zero = 1, .bucket_mib = 0.002};
    const Batch batch{.seq = 8, .micro_batch = 1, .global_batch = 12};
    const HarnessResult run = run_steps(small_llama(), layout, batch);
    for (int rank = 0; rank < dp; ++rank) {
      const std::int64_t reduce_scatter = gradient_bytes(layout, batch) * (dp - 1) / dp;
      const std::int64_t all_gather =
          reduce_scatter;  // fp32 parameters are as large as their gradients
      EXPECT_EQ(run.bytes_sent[static_cast<std::size_t>(rank)].at("dp"),
                reduce_scatter + all_gather + 3 * scalar_bytes(dp, rank))
          << "dp " << dp << ", rank " << rank;
    }
  }
}

/// Bytes of the gradients of the model in the buckets of a layout; with ZeRO-3 these are units.
struct Gradients {
  std::int64_t all = 0;
  std::int64_t end = 0;        ///< of the first: final norm and head
  std::int64_t embedding = 0;  ///< of the last
};
Gradients gradients_of(const Layout& layout, const Batch& batch) {
  const Program program = build_train({.spec = small_llama(), .layout = layout, .batch = batch});
  Gradients gradients;
  const ParameterRoots roots = roots_of(program);
  for (const std::int64_t elems : roots.elems) gradients.all += elems * dtype_bytes(DType::kF32);
  gradients.end = roots.elems.front() * dtype_bytes(DType::kF32);
  gradients.embedding = roots.elems.back() * dtype_bytes(DType::kF32);
  return gradients;
}

// Rajbhandari et al. 2020, arXiv:1910.02054, section 7: ZeRO-2 as much as data parallelism, ZeRO-3
// half as much again.
TEST(BytesSent, Zero2And3SendTheVolumesOfThePaper) {
  for (const int dp : {2, 4}) {
    for (const int num_micro_batches : {1, 3}) {
      const Batch batch{.seq = 8, .micro_batch = 1, .global_batch = dp * num_micro_batches};
      const auto sent = [&](const Layout& layout) {
        const HarnessResult run = run_steps(small_llama(), layout, batch);
        EXPECT_EQ(run.bytes_sent, run.predicted_sent);
        return run.bytes_sent[0].at("dp") - 3 * scalar_bytes(dp, 0);
      };
      const auto part = [dp](std::int64_t bytes) { return bytes * (dp - 1) / dp; };
      const auto m = static_cast<std::int64_t>(num_micro_batches);
      Layout layout{.dp = dp, .zero = 2};
      const std::int64_t all = gradients_of(layout, batch).all;
      EXPECT_EQ(sent(layout), 2 * part(all));
      layout.reduce = GradientReduction::kMicroBatch;
      EXPECT_EQ(sent(layout), (m + 1) * part(all));
      layout = {.dp = dp, .zero = 3, .reshard = Reshard::kNever};
      const Gradients units = gradients_of(layout, batch);
      EXPECT_EQ(sent(layout), 2 * part(units.all));
      layout.reshard = Reshard::kAlways;
      // The embedding is not read in the backward pass, and the end is not dropped before it.
      const std::int64_t again = units.all - units.end - units.embedding;
      EXPECT_EQ(sent(layout), part(units.all) + m * (part(units.all) + part(again)));
      layout.reduce = GradientReduction::kMicroBatch;
      EXPECT_EQ(sent(layout), m * (2 * part(units.all) + part(again)));
    }
  }
}

TEST(BytesSent, DoNotDependOnAccumulation) {
  const Layout layout{.dp = 2, .bucket_mib = 0.002};
  const HarnessResult one =
      run_steps(small_llama(), layout, {.seq = 8, .micro_batch = 4, .global_batch = 8});
  const HarnessResult four =
      run_steps(small_llama(), layout, {.seq = 8, .micro_batch = 1, .global_batch = 8});
  EXPECT_EQ(one.bytes_sent, four.bytes_sent);
}

TEST(Failure, ARankThatThrowsEndsAllRanksWithItsOwnError) {
  HarnessOptions options{.steps = 3};
  options.on_run = [](int step, bool begins) {
    static thread_local int calls = 0;
    if (step == 1 && begins && ++calls == 1) throw std::runtime_error("a rank fails in step 2");
  };
  try {
    static_cast<void>(run_steps(small_llama(), {.dp = 4, .zero = 1},
                                {.seq = 8, .micro_batch = 1, .global_batch = 4}, options));
    FAIL() << "did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "a rank fails in step 2");
  }
}

TEST(Failure, AnExceptionInTheMiddleOfAStepEndsAllRanksWithItsOwnError) {
  HarnessOptions options{.steps = 1};
  options.sample = [](std::int64_t sample, std::span<std::int32_t> tokens,
                      std::span<std::int32_t> labels) {
    std::fill(tokens.begin(), tokens.end(),
              sample == 5 ? 1'000'000 : 1);  // outside of the vocabulary
    std::fill(labels.begin(), labels.end(), 2);
  };
  EXPECT_THROW(
      static_cast<void>(run_steps(small_llama(), {.dp = 3, .zero = 1},
                                  {.seq = 8, .micro_batch = 1, .global_batch = 6}, options)),
      InternalError);
}

/// A run whose reductions do not wait for the gradients they send.
void run_with_a_race() {
  HarnessOptions options{.steps = 2};
  options.mutate = [](Program& program) {
    const int reduce = *program.find_template("reduce");
    for (Instruction& instruction : program.at(reduce).instructions) instruction.waits.clear();
    for (Call& call : program.calls) {
      if (call.template_index == reduce) call.waits.clear();
    }
  };
  static_cast<void>(run_steps(small_llama(), {.dp = 2, .zero = 1, .bucket_mib = 0.002},
                              {.seq = 8, .micro_batch = 1, .global_batch = 4}, options));
  std::exit(
      0);  // the thread sanitizer turns this into its own exit code when it has reported something
}

TEST(ThreadSanitizer, FindsASeededRaceBetweenTwoInstructions) {
  if (!is_thread_sanitized())
    GTEST_SKIP() << "needs a build with the thread sanitizer (preset tsan)";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_with_a_race(), testing::ExitedWithCode(66), "data race");
}

}  // namespace
}  // namespace trireme
