#include "trireme/plan/search.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/plan/plan_test_request.h"

namespace trireme {
namespace {

std::int64_t rejected(const SearchResult& result, PlanRule rule) {
  return result.rejected.at(static_cast<std::size_t>(rule));
}

class AnyDevices : public testing::TestWithParam<int> {};

TEST_P(AnyDevices, EveryLayoutUsesThemAllAndHasWholeMicroBatches) {
  const PlanRequest request = plan_request("llama-3-8b", GetParam(), 84);
  const PlanSpace space(request);
  for (const PricedLayout& each : search(space, {}).fitting) {
    const Workload workload = space.layout_of(each.number);
    ASSERT_EQ(workload.layout.world(), GetParam());
    ASSERT_EQ(workload.num_micro_batches() * workload.batch.micro_batch * workload.layout.dp, 84);
  }
}
INSTANTIATE_TEST_SUITE_P(Devices, AnyDevices, testing::Values(1, 6, 7, 12, 28),
                         testing::PrintToStringParamName());

TEST(Search, ALayoutOfItsNumberIsTheOneThatWasPriced) {
  PlanRequest request = plan_request("llama-3-8b", 16, 64);
  request.trainer.bucket_mib = 50;  // given; a free one is chosen after the search
  const PlanSpace space(request);
  const SearchResult result = search(space, {});
  ASSERT_GT(result.fitting.size(), 100U);
  for (std::size_t i = 0; i < result.fitting.size(); i += 7) {
    const PricedLayout& each = result.fitting[i];
    const Estimate again = estimate(space.layout_of(each.number), request.cluster, request.profile);
    ASSERT_EQ(again.seconds.total(), each.step_seconds) << each.number;
    ASSERT_EQ(again.needed_bytes, each.needed_bytes) << each.number;
  }
}

TEST(Search, ListsWhatTheRulesLeaveWithUnlimitedMemory) {
  PlanRequest request = plan_request("llama-3-8b", 12, 24);
  request.cluster.device.memory_bytes = 1e18;
  const PlanSpace space(request);
  const SearchResult result = search(space, {});
  std::vector<std::uint64_t> priced, listed;
  for (const PricedLayout& each : result.fitting) priced.push_back(each.number);
  RuleCounts rejected{};
  for (std::size_t i = 0; i < space.degrees().size(); ++i) {
    const RuleCounts of_degrees =
        space.list(i, [&](std::uint64_t number, const Workload&) { listed.push_back(number); });
    for (std::size_t rule = 0; rule < kNumPlanRules; ++rule)
      rejected.at(rule) += of_degrees.at(rule);
  }
  EXPECT_EQ(listed, priced);
  EXPECT_EQ(rejected, result.rejected);
}

TEST(Search, IsTheSameWithAnyNumberOfThreads) {
  const PlanRequest request = plan_request("llama-3-8b", 24, 48);
  const PlanSpace space(request);
  const SearchResult one = search(space, {.threads = 1});
  const SearchResult five = search(space, {.threads = 5});
  ASSERT_EQ(one.fitting.size(), five.fitting.size());
  for (std::size_t i = 0; i < one.fitting.size(); ++i) {
    ASSERT_EQ(one.fitting[i].number, five.fitting[i].number);
    ASSERT_EQ(one.fitting[i].step_seconds, five.fitting[i].step_seconds);
  }
  EXPECT_EQ(one.rejected, five.rejected);
}

TEST(Search, EveryLayoutFitsOrIsCountedOnce) {
  const PlanRequest request = plan_request("llama-3-70b", 48, 96);
  const PlanSpace space(request);
  const SearchResult result = search(space, {});
  const std::int64_t refused =
      std::accumulate(result.rejected.begin(), result.rejected.end(), std::int64_t{0});
  EXPECT_EQ(static_cast<std::int64_t>(result.fitting.size()) + refused, space.num_layouts());
  EXPECT_EQ(result.searched, space.num_layouts());
}

TEST(Search, CountsTensorParallelismAboveTheKeyHeads) {
  PlanRequest request = plan_request("llama-3-8b", 16, 16);
  request.limits.tp = 16;
  const PlanSpace space(request);
  const SearchResult result = search(space, {});
  EXPECT_TRUE(result.fitting.empty());
  EXPECT_EQ(rejected(result, PlanRule::kTensor), space.num_layouts());
}

TEST(Search, ALengthThatDoesNotDivideLeavesOutContextParallelism) {
  const PlanRequest request = plan_request("llama-3-8b", 8, 16, "trireme", 4095);
  const PlanSpace space(request);
  const SearchResult result = search(space, {});
  EXPECT_GT(rejected(result, PlanRule::kContext), 0);
  for (const PricedLayout& each : result.fitting) {
    ASSERT_EQ(space.layout_of(each.number).layout.cp, 1);
  }
}

TEST(Search, MoreMemoryNeverRemovesALayout) {
  PlanRequest request = plan_request("llama-3-8b", 8, 16);
  const SearchResult less = search(PlanSpace(request), {});
  request.cluster.device.memory_bytes *= 1.1;
  const SearchResult more = search(PlanSpace(request), {});
  const auto is_before = [](const auto& a, const auto& b) { return a.number < b.number; };
  EXPECT_TRUE(std::includes(more.fitting.begin(), more.fitting.end(), less.fitting.begin(),
                            less.fitting.end(), is_before));
}

TEST(Search, FixedChoicesAreKept) {
  PlanRequest request = plan_request("llama-3-8b", 16, 32);
  request.limits = {.tp = 2,
                    .pp = 4,
                    .zero = 1,
                    .recompute = Recompute::kFull,
                    .schedule = "interleaved",
                    .chunks = 2};
  const PlanSpace space(request);
  const SearchResult result = search(space, {});
  ASSERT_FALSE(result.fitting.empty());
  for (const PricedLayout& each : result.fitting) {
    const Layout layout = space.layout_of(each.number).layout;
    ASSERT_EQ(layout.tp, 2);
    ASSERT_EQ(layout.pp, 4);
    ASSERT_EQ(layout.chunks, 2);
    ASSERT_EQ(layout.recompute, Recompute::kFull);
  }
}

TEST(Search, ZeroThreeShardsWithinNodesAndReducesOnceAStepToo) {
  PlanRequest request = plan_request("llama-3-8b", 16, 64);
  request.limits = {.tp = 1, .cp = 1, .pp = 1, .zero = 3};
  const PlanSpace space(request);
  std::set<std::pair<int, GradientReduction>> kinds;
  for (const PricedLayout& each : search(space, {}).fitting) {
    const Workload workload = space.layout_of(each.number);
    if (workload.num_micro_batches() > 1)
      kinds.emplace(workload.layout.dp_shard, workload.layout.reduce);
  }
  EXPECT_EQ(kinds,
            (std::set<std::pair<int, GradientReduction>>{{0, GradientReduction::kStep},
                                                         {0, GradientReduction::kMicroBatch},
                                                         {8, GradientReduction::kMicroBatch}}));
}

TEST(Search, MegatronWantsAsManyLayersOnEachStage) {
  PlanRequest request = plan_request("llama-3-8b", 12, 24, "megatron");
  request.limits.pp = 3;
  const SearchResult result = search(PlanSpace(request), {});
  EXPECT_TRUE(result.fitting.empty());
  EXPECT_GT(rejected(result, PlanRule::kStages), 0);
}

TEST(Search, FullyShardedDataParallelismHasNeitherTensorsNorStagesCut) {
  const PlanRequest request = plan_request("llama-3-8b", 16, 32, "fsdp");
  const PlanSpace space(request);
  ASSERT_EQ(space.degrees().size(), 1U);
  EXPECT_EQ(space.degrees().front(), (Degrees{.dp = 16}));
}

TEST(Search, EndsWhenItIsStopped) {
  const PlanRequest request = plan_request("llama-3-8b", 16, 32);
  const std::atomic<int> stop{2};
  const SearchResult result = search(PlanSpace(request), {.stop = &stop});
  EXPECT_TRUE(result.is_stopped);
  EXPECT_EQ(result.searched, 0);
}

}  // namespace
}  // namespace trireme
