#include "trireme/cost/stages.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "trireme/cost/known_models.h"
#include "trireme/program/schedules/schedules.h"
#include "trireme/program/schedules/virtual_clock.h"

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
  EXPECT_EQ(in_flight("zb-v", 0, 3, 8), 2.5);
  EXPECT_DOUBLE_EQ(in_flight("interleaved", 3, 0, 8), 4 + 3.0 / 3);
}

struct ScheduleCase {
  const char* name;
  int chunks;
  int micro_batches;
};

/// Idle time of the busiest rank in units of (pp - 1) forwards and backwards of a stage.
double simulated_share(const ScheduleCase& one, int pp) {
  const Schedule schedule = make_schedule(
      one.name, {.ranks = pp, .chunks = one.chunks, .micro_batches = one.micro_batches});
  const ScheduleTimes times = run_virtual_clock(schedule, {});
  const double busy = *std::max_element(times.busy.begin(), times.busy.end());
  return (times.makespan - busy) / (busy / one.micro_batches) / (pp - 1);
}

class BubbleShare : public testing::TestWithParam<ScheduleCase> {};

TEST_P(BubbleShare, IsWhatTheVirtualClockLeavesIdle) {
  constexpr int kStages = 8;
  const Layout layout{.pp = kStages, .schedule = GetParam().name, .chunks = GetParam().chunks};
  EXPECT_NEAR(bubble_share(layout), simulated_share(GetParam(), kStages), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Schedules, BubbleShare,
                         testing::Values(ScheduleCase{"gpipe", 1, 8}, ScheduleCase{"1f1b", 1, 8},
                                         ScheduleCase{"interleaved", 2, 8},
                                         ScheduleCase{"interleaved", 5, 16},
                                         ScheduleCase{"zb-h1", 1, 8}, ScheduleCase{"zb-h2", 1, 15},
                                         ScheduleCase{"zb-v", 2, 16}),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           std::erase(name, '-');
                           return name + std::to_string(each.param.chunks);
                         });

}  // namespace
}  // namespace trireme
