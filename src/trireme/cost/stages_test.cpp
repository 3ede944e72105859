#include "trireme/cost/stages.h"

#include <gtest/gtest.h>

#include "trireme/cost/known_models.h"

namespace trireme {
namespace {

Workload workload(const char* model, Layout layout, std::int64_t micro_batches = 8) {
  Workload result{.model = *known_model(model), .layout = std::move(layout), .batch = {}};
  result.batch = {.seq = 4096, .micro_batch = 1, .global_batch = micro_batches * result.layout.dp};
  return result;
}

std::vector<int> layers(const Workload& of, StageSplit split) {
  std::vector<int> result;
  for (const StageShare& share : stage_shares(of, split)) result.push_back(share.layers);
  return result;
}

TEST(StageShares, NanotronEndsAStageAtItsShareOfTheCost) {
  EXPECT_EQ(layers(workload("8B", {.pp = 4}), StageSplit::kCumulative),
            (std::vector<int>{9, 9, 8, 6}));
  EXPECT_EQ(layers(workload("3B", {.pp = 8}), StageSplit::kCumulative),
            (std::vector<int>{4, 4, 4, 4, 4, 4, 4, 0}));
}

TEST(StageShares, ATieEndsTheStage) {
  EXPECT_EQ(layers(workload("1B", {.pp = 2}), StageSplit::kCumulative), (std::vector<int>{10, 6}));
  EXPECT_EQ(layers(workload("1B", {.pp = 4}), StageSplit::kCumulative),
            (std::vector<int>{5, 5, 5, 1}));
}

TEST(StageShares, EndsHoldEmbeddingAndHead) {
  const auto shares = stage_shares(workload("8B", {.pp = 4}), StageSplit::kEven);
  EXPECT_EQ(shares.front(), (StageShare{8, true, false}));
  EXPECT_EQ(shares[1], (StageShare{8, false, false}));
  EXPECT_EQ(shares.back(), (StageShare{8, false, true}));
}

TEST(StageShares, ChunksOfARankAreAdded) {
  EXPECT_EQ(
      layers(workload("1B", {.pp = 4, .schedule = "interleaved", .chunks = 2}), StageSplit::kEven),
      (std::vector<int>{4, 4, 4, 4}));
}

TEST(StageShares, VPlacementPutsTheHeadOnTheFirstRank) {
  const auto shares =
      stage_shares(workload("8B", {.pp = 4, .schedule = "zb-v"}), StageSplit::kEven);
  EXPECT_TRUE(shares.front().has_embedding && shares.front().has_head);
}

TEST(StageShares, StagesOfTheLayoutAreKept) {
  EXPECT_EQ(layers(workload("1B", {.pp = 2, .stages = {3, 13}}), StageSplit::kEven),
            (std::vector<int>{3, 13}));
}

double in_flight(const char* schedule, int chunks, int rank, std::int64_t micro_batches) {
  return micro_batches_in_flight(
      workload("8B", {.pp = 4, .schedule = schedule, .chunks = chunks}, micro_batches), rank);
}

TEST(MicroBatchesInFlight, OneForwardOneBackwardKeepsNoMoreThanThereAre) {
  EXPECT_EQ(in_flight("1f1b", 0, 0, 2), 2);
  EXPECT_EQ(in_flight("1f1b", 0, 3, 2), 1);
  EXPECT_EQ(in_flight("1f1b", 0, 0, 8), 4);
  EXPECT_EQ(in_flight("1f1b", 0, 1, 8), 3);
}

TEST(MicroBatchesInFlight, BySchedule) {
  EXPECT_EQ(in_flight("gpipe", 0, 3, 8), 8);
  EXPECT_EQ(in_flight("zb-h1", 0, 0, 8), 4);
  EXPECT_EQ(in_flight("zb-h2", 0, 0, 8), 7);
  EXPECT_EQ(in_flight("zb-v", 0, 0, 8), 4);
  EXPECT_DOUBLE_EQ(in_flight("interleaved", 3, 0, 8), 4 + 3.0 / 3);
}

TEST(BubbleShare, BySchedule) {
  EXPECT_EQ(bubble_share({.pp = 4, .schedule = "1f1b"}), 1);
  EXPECT_EQ(bubble_share({.pp = 4, .schedule = "interleaved", .chunks = 4}), 0.25);
  EXPECT_DOUBLE_EQ(bubble_share({.pp = 4, .schedule = "zb-h1"}), 1.0 / 3);
  EXPECT_EQ(bubble_share({.pp = 4, .schedule = "zb-v"}), 0);
}

}  // namespace
}  // namespace trireme
