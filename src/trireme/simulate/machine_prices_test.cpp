#include "trireme/simulate/machine_prices.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/simulate/test_machine.h"

namespace trireme {
namespace {

constexpr KernelCall kAdd10{.kernel = Kernel::kAdd, .sizes = {10}};

TEST(MachinePrices, MeasuredSizesHaveTheirSeconds) {
  const MachinePrices prices(machine({{Kernel::kAdd, {{32, 1, 2, 10, 3e-6}}}}));
  EXPECT_NEAR(prices.kernel_seconds(kAdd10, 32, 1).busy, 3e-6, 1e-15);
}

TEST(MachinePrices, BetweenTwoSizesIsALineOfLogarithms) {
  const MachinePrices prices(
      machine({{Kernel::kAdd, {{32, 1, 2, 1, 1e-6}, {32, 1, 2, 100, 1e-4}}}}));
  EXPECT_NEAR(prices.kernel_seconds(kAdd10, 32, 1).busy, 1e-5, 1e-14);
}

TEST(MachinePrices, BeyondTheLargestSizeSecondsGrowWithTheWork) {
  const MachinePrices prices(machine({{Kernel::kAdd, {{32, 1, 2, 5, 2e-6}}}}));
  EXPECT_NEAR(prices.kernel_seconds(kAdd10, 32, 1).busy, 4e-6, 1e-15);
}

TEST(MachinePrices, AThreadAloneHasItsOwnSeconds) {
  const MachinePrices prices(
      machine({{Kernel::kAdd, {{32, 1, 2, 10, 3e-6}, {32, 1, 1, 10, 2e-6}}}}));
  EXPECT_NEAR(prices.kernel_seconds(kAdd10, 32, 1).alone, 2e-6, 1e-15);
  EXPECT_NEAR(prices.kernel_seconds(kAdd10, 32, 1).busy, 3e-6, 1e-15);
}

TEST(MachinePrices, ATeamIsPricedAsATeam) {
  const MachinePrices prices(
      machine({{Kernel::kAdd, {{32, 1, 2, 10, 3e-6}, {32, 2, 1, 10, 1e-6}}}}));
  EXPECT_NEAR(prices.kernel_seconds(kAdd10, 32, 2).busy, 1e-6, 1e-15);
}

TEST(MachinePrices, NearShapesOfAProductWeighMore) {
  const MachinePrices prices(machine(
      {{Kernel::kProductForward, {{32, 1, 2, 8, 8, 8, 512e-9}, {32, 1, 2, 512, 512, 512, 1}}}}));
  const KernelCall near{.kernel = Kernel::kProductForward, .sizes = {8, 8, 9}};
  EXPECT_NEAR(prices.kernel_seconds(near, 32, 1).busy, 576e-9, 1e-9);
}

TEST(MachinePrices, TransfersAreThoseOfTheNearestNumberOfRanks) {
  Cluster cluster = machine({});
  cluster.file.tables["transfers.all_reduce"] = {.rows = {{2, 100, 1e-6}, {4, 100, 5e-6}}};
  const MachinePrices prices(cluster);
  EXPECT_NEAR(
      prices.transfer_seconds({.transfers = Transfers::kAllReduce, .ranks = 4, .bytes = 100}), 5e-6,
      1e-15);
  EXPECT_NEAR(
      prices.transfer_seconds({.transfers = Transfers::kAllReduce, .ranks = 2, .bytes = 10}), 1e-6,
      1e-15);
}

TEST(MachinePrices, APublishedClusterIsRefused) {
  try {
    const MachinePrices prices(read_cluster("h100-dgx"));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "[h100-dgx] machine.cores is missing: programs are priced by what trireme "
                 "calibrate has measured; make the file with trireme calibrate -o FILE.toml on the "
                 "machine in question");
  }
}

}  // namespace
}  // namespace trireme
