#include "trireme/cli/verification.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/cost/known_models.h"

namespace trireme {
namespace {

StepSimulation step_of(const Layout& layout, std::int64_t micro_batches) {
  const BuildRequest request{
      .spec = *known_spec("qwen2.5-0.5b"),
      .layout = layout,
      .batch = {.seq = 512, .micro_batch = 1, .global_batch = layout.dp * micro_batches}};
  return simulate_pipeline(request, read_cluster("h100-dgx"));
}

TEST(Verification, ASmallWorldIsVerifiedAsAWhole) {
  const Verification found = verify_step(step_of({.pp = 2, .dp = 2}, 2));
  EXPECT_EQ(found.num_ranks, 4U);
  EXPECT_TRUE(found.is_whole());
}

TEST(Verification, OfALargeWorldTheSimulatedRanksAre) {
  const Verification found = verify_step(step_of({.pp = 2, .dp = 64}, 2));
  EXPECT_EQ(found.num_ranks, 2U);
  EXPECT_EQ(found.world, 128U);
}

TEST(Verification, SaysWhatNeedsTheOtherRanks) {
  EXPECT_EQ(verification_text({.num_ranks = 2, .world = 128, .num_instructions = 1234}),
            "verified: V1 V2 V3 V4 V5 V9 V10 V11 V12 V13 V14 V16 V17 (1,234 instructions on 2 of "
            "128 ranks, each by itself); V6 V7 V8 V15 V18 need all ranks: trireme train "
            "--dry-run\n");
}

TEST(Verification, ABrokenProgramIsFound) {
  StepSimulation step = step_of({.pp = 2, .dp = 64}, 2);
  step.programs.front().calls.pop_back();
  EXPECT_THROW(static_cast<void>(verify_step(step)), InternalError);
}

}  // namespace
}  // namespace trireme
