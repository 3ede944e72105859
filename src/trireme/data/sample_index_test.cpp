#include "trireme/data/sample_index.h"

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

std::vector<std::int64_t> epoch_order(const SampleIndex& index, std::int64_t epoch) {
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < index.num_windows(); ++i) {
    windows.push_back(index.window_of(epoch * index.num_windows() + i));
  }
  return windows;
}

TEST(SampleIndex, EachEpochIsAPermutation) {
  for (std::int64_t num_windows = 1; num_windows <= 300; ++num_windows) {
    SCOPED_TRACE(num_windows);
    const SampleIndex index(num_windows, 7);
    for (const std::int64_t epoch : {0, 1, 12345}) {
      const std::vector<std::int64_t> order = epoch_order(index, epoch);
      const std::set<std::int64_t> seen(order.begin(), order.end());
      EXPECT_EQ(std::ssize(seen), num_windows);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), num_windows - 1);
    }
  }
}

TEST(SampleIndex, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  const std::vector<std::int64_t> order = epoch_order(SampleIndex(100, 1), 0);
  EXPECT_NE(order, epoch_order(SampleIndex(100, 1), 1));
  EXPECT_NE(order, epoch_order(SampleIndex(100, 2), 0));
}

// Resuming a run needs the order of the version that saved it. Values from an independent Philox
// and Feistel network in Python.
TEST(SampleIndex, TheOrderOfASeedNeverChanges) {
  EXPECT_EQ(epoch_order(SampleIndex(10, 42), 0),
            (std::vector<std::int64_t>{9, 3, 6, 4, 7, 2, 0, 8, 1, 5}));
  EXPECT_EQ(SampleIndex(1'000'000'007, 42).window_of(123'456'789'012), 32'070'506);
}

// A sample computed alone, after others, or by another object is the same: nothing is remembered.
TEST(SampleIndex, ASampleDoesNotDependOnWhatWasAskedBefore) {
  const SampleIndex one(37, 3);
  std::vector<std::int64_t> forward;
  for (std::int64_t i = 0; i < 200; ++i) forward.push_back(one.window_of(i));
  for (std::int64_t i = 199; i >= 0; --i) {
    EXPECT_EQ(SampleIndex(37, 3).window_of(i), forward[static_cast<std::size_t>(i)]);
  }
}

TEST(SampleIndex, AllOrdersOfThreeWindowsAreEquallyLikely) {
  constexpr int kNumSeeds = 6000;
  std::map<std::vector<std::int64_t>, int> counts;
  for (int seed = 0; seed < kNumSeeds; ++seed) {
    ++counts[epoch_order(SampleIndex(3, static_cast<std::uint64_t>(seed)), 0)];
  }
  ASSERT_EQ(counts.size(), 6U);
  const double mean = kNumSeeds / 6.0;
  const double deviation = std::sqrt(kNumSeeds * (1.0 / 6.0) * (5.0 / 6.0));
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, mean, 5 * deviation);
}

// In a random order, |window - place| has mean (n^2 - 1) / 3n and no neighbour relation survives.
TEST(SampleIndex, NeighboursAreSpreadOverTheWholeRange) {
  constexpr std::int64_t kNum = 4096;
  const std::vector<std::int64_t> order = epoch_order(SampleIndex(kNum, 5), 2);
  double sum = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    sum += std::abs(static_cast<double>(order[i] - order[i - 1]));
  }
  const double mean = kNum / 3.0;
  // The distance of two uniform places has standard deviation n / sqrt(18).
  EXPECT_NEAR(sum / (kNum - 1), mean, 5 * kNum / std::sqrt(18.0) / std::sqrt(kNum));
}

TEST(SampleIndex, CountsWholeGlobalBatchesOfOneEpoch) {
  EXPECT_EQ(SampleIndex(9, 0).num_full_batches(4), 2);
  EXPECT_EQ(SampleIndex(3, 0).num_full_batches(4), 0);
}

TEST(SampleIndex, RefusesNoWindows) {
  EXPECT_THROW(SampleIndex(0, 0), UsageError);
}

}  // namespace
}  // namespace trireme
