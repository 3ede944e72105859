#include "trireme/plan/goodput.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr FailureModel kDaily{.mtbf_seconds = 86400, .checkpoint_seconds = 60};

TEST(Goodput, YoungsIntervalIsTheRootOfTwiceTheCostTimesTheMean) {
  EXPECT_DOUBLE_EQ(young_interval_seconds({.mtbf_seconds = 50'000, .checkpoint_seconds = 100}),
                   3162.2776601683795);
}

TEST(Goodput, DalysIntervalAddsTwoTermsToYoungs) {
  // x = C / 2M = 0.005: 1000 (1 + sqrt(x) / 3 + x / 9) - 100.
  EXPECT_NEAR(daly_interval_seconds({.mtbf_seconds = 5'000, .checkpoint_seconds = 50}),
              707.1067811865476 * (1 + 0.07071067811865475 / 3 + 0.005 / 9) - 50, 1e-9);
}

TEST(Goodput, CheckpointsDearerThanFailuresAreTakenOncePerMeanTime) {
  EXPECT_DOUBLE_EQ(daly_interval_seconds({.mtbf_seconds = 10, .checkpoint_seconds = 20}), 10);
}

TEST(Goodput, NoIntervalIsBetterThanDalysByMoreThanATenThousandth) {
  const double best = goodput_share(kDaily, daly_interval_seconds(kDaily));
  for (double interval = 100; interval < 86'400; interval *= 1.01) {
    EXPECT_LT(goodput_share(kDaily, interval), best + 1e-4) << interval;
  }
}

TEST(Goodput, LosesTheFirstOrderShareWhereFailuresAreRare) {
  // C / t + t / 2M, Young 1974, with t = 1000 s of a mean of 10^6 s.
  const FailureModel rare{.mtbf_seconds = 1e6, .checkpoint_seconds = 10};
  EXPECT_NEAR(1 - goodput_share(rare, 1000), 10.0 / 1000 + 1000 / 2e6, 2e-4);
}

TEST(Goodput, RestartsCostOnceForEachFailure) {
  FailureModel slow = kDaily;
  slow.restart_seconds = 864;  // a hundredth of the mean
  const double interval = daly_interval_seconds(kDaily);
  EXPECT_NEAR(goodput_share(slow, interval) / goodput_share(kDaily, interval), 0.990049834, 1e-9);
}

}  // namespace
}  // namespace trireme
