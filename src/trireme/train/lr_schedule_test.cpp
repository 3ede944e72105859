#include "trireme/train/lr_schedule.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::vector<double> rates(const LrSchedule& schedule, std::int64_t num_steps) {
  std::vector<double> all;
  for (std::int64_t step = 1; step <= num_steps; ++step) {
    all.push_back(learning_rate(schedule, step));
  }
  return all;
}

// Warm-up 4, peak 1e-3, cosine to 1e-4, 12 steps (case A19).
constexpr LrSchedule kCosine{
    .shape = LrShape::kCosine, .lr = 1e-3, .min_lr = 1e-4, .warmup_steps = 4, .total_steps = 12};

TEST(LrSchedule, WarmupStartsAtAShareOfThePeakAndReachesItAtItsLastStep) {
  EXPECT_EQ(rates(kCosine, 4), (std::vector<double>{2.5e-4, 5e-4, 7.5e-4, 1e-3}));
}

TEST(LrSchedule, CosineFallsAlongHalfACosine) {
  // 1e-4 + 9e-4 * (1 + cos(pi * k / 8)) / 2 for k = 1..8, rounded to seven digits after the point.
  const std::vector<double> expected{9.657458e-4, 8.681981e-4, 7.222075e-4, 5.5e-4,
                                     3.777925e-4, 2.318019e-4, 1.342542e-4, 1e-4};
  for (std::int64_t step = 5; step <= 12; ++step) {
    SCOPED_TRACE(step);
    EXPECT_NEAR(learning_rate(kCosine, step), expected[static_cast<std::size_t>(step - 5)],
                0.5e-10);
  }
}

TEST(LrSchedule, LastStepUsesTheMinimumExactlyAndNoDecayStepIsBelowIt) {
  EXPECT_EQ(learning_rate(kCosine, 12), 1e-4);
  EXPECT_EQ(learning_rate(kCosine, 13), 1e-4);
  for (std::int64_t step = 4; step <= 20; ++step) {
    EXPECT_GE(learning_rate(kCosine, step), 1e-4) << step;
  }
}

TEST(LrSchedule, WithoutWarmupTheFirstStepUsesThePeak) {
  LrSchedule schedule = kCosine;
  schedule.warmup_steps = 0;
  EXPECT_EQ(learning_rate(schedule, 1), 1e-3);
  EXPECT_LT(learning_rate(schedule, 2), 1e-3);
  EXPECT_EQ(learning_rate(schedule, 12), 1e-4);
}

TEST(LrSchedule, LinearFallsByEqualSteps) {
  const LrSchedule schedule{
      .shape = LrShape::kLinear, .lr = 1.0, .min_lr = 0.5, .warmup_steps = 2, .total_steps = 6};
  EXPECT_EQ(rates(schedule, 7), (std::vector<double>{0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.5}));
}

TEST(LrSchedule, DecayStepsEndTheDecayBeforeTheRun) {
  const LrSchedule schedule{
      .shape = LrShape::kLinear, .lr = 1.0, .min_lr = 0.25, .decay_steps = 3, .total_steps = 100};
  EXPECT_EQ(rates(schedule, 6), (std::vector<double>{1.0, 0.75, 0.5, 0.25, 0.25, 0.25}));
}

TEST(LrSchedule, WsdStaysAtThePeakAndFallsOverTheLastSteps) {
  const LrSchedule schedule{.shape = LrShape::kWsd,
                            .lr = 1.0,
                            .min_lr = 0.0,
                            .warmup_steps = 2,
                            .decay_steps = 4,
                            .total_steps = 8};
  EXPECT_EQ(rates(schedule, 9),
            (std::vector<double>{0.5, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0}));
}

TEST(LrSchedule, ConstantStaysAtThePeakAfterTheWarmup) {
  const LrSchedule schedule{
      .shape = LrShape::kConstant, .lr = 1.0, .warmup_steps = 2, .total_steps = 4};
  EXPECT_EQ(rates(schedule, 5), (std::vector<double>{0.5, 1.0, 1.0, 1.0, 1.0}));
}

TEST(LrSchedule, WarmupAsLongAsTheRunEndsAtThePeak) {
  LrSchedule schedule = kCosine;
  schedule.total_steps = 4;
  EXPECT_EQ(rates(schedule, 4), (std::vector<double>{2.5e-4, 5e-4, 7.5e-4, 1e-3}));
}

}  // namespace
}  // namespace trireme
