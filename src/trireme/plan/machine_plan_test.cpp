#include "trireme/plan/machine_plan.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/plan/explain.h"
#include "trireme/plan/plan_test_request.h"
#include "trireme/plan/program_check.h"
#include "trireme/simulate/layout_price.h"

namespace trireme {
namespace {

std::int64_t counted(const Plan& plan) {
  return std::accumulate(plan.rejected.begin(), plan.rejected.end(),
                         plan.num_fitting + plan.not_priced);
}

TEST(MachinePlan, OffersTheFastestOfAllLayouts) {
  const PlanRequest request = machine_request();
  const PlanSpace space(request);
  double least_seconds = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < space.degrees().size(); ++i) {
    static_cast<void>(space.list(i, [&](std::uint64_t, const Workload& workload) {
      const ProgramPrice price = price_layout(build_request(request, workload), 1, request.cluster);
      least_seconds = std::min(least_seconds, price.step_seconds);
    }));
  }
  const Plan plan = make_plan(request, {});
  ASSERT_FALSE(plan.layouts.empty());
  EXPECT_EQ(plan.not_priced, 0);
  // The sum of the step's terms against the clock.
  EXPECT_NEAR(plan.layouts.front().step_seconds(), least_seconds, 1e-12);
}

TEST(MachinePlan, CountsAddUpToWhatWasSearched) {
  const Plan plan = make_plan(machine_request(), {});
  EXPECT_GT(plan.searched, 30);
  EXPECT_EQ(counted(plan), plan.searched);
}

TEST(MachinePlan, IsTheSameWithAnyNumberOfThreads) {
  const Plan one = make_plan(machine_request(), {.control = {.threads = 1}});
  const Plan three = make_plan(machine_request(), {.control = {.threads = 3}});
  ASSERT_EQ(one.layouts.size(), three.layouts.size());
  for (std::size_t i = 0; i < one.layouts.size(); ++i) {
    EXPECT_EQ(one.layouts[i].workload.layout, three.layouts[i].workload.layout);
    EXPECT_EQ(one.layouts[i].workload.batch, three.layouts[i].workload.batch);
  }
}

TEST(MachinePlan, FewerRanksHaveMoreThreads) {
  if (num_available_cores() < 2) GTEST_SKIP() << "needs teams of two threads";
  PlanRequest request = machine_request();
  request.takes_fewer = true;
  const Plan plan = make_plan(request, {.top = 100});
  const auto alone =
      std::find_if(plan.layouts.begin(), plan.layouts.end(),
                   [](const PlannedLayout& each) { return each.workload.layout.world() == 1; });
  ASSERT_NE(alone, plan.layouts.end());
  EXPECT_EQ(alone->threads_per_rank, 2);
  EXPECT_EQ(plan.layouts.front().threads_per_rank * plan.layouts.front().workload.layout.world(),
            2);
}

TEST(MachinePlan, MoreRanksThanCoresHaveAThreadEach) {
  PlanRequest request = machine_request();
  request.devices = 4;
  const Plan plan = make_plan(request, {.top = 1});
  ASSERT_EQ(plan.layouts.size(), 1U);
  EXPECT_EQ(plan.layouts.front().threads_per_rank, 1);
  EXPECT_EQ(plan.layouts.front().workload.layout.world(), 4);
}

TEST(MachinePlan, MemoryIsThatOfAllRanksTogether) {
  const PlanRequest request = machine_request();
  const PlannedLayout best = make_plan(request, {.top = 1}).layouts.at(0);
  const ProgramPrice price =
      price_layout(build_request(request, best.workload), 1, request.cluster);
  EXPECT_EQ(best.machine_bytes,
            std::accumulate(price.arena_bytes.begin(), price.arena_bytes.end(), 0.0));
  EXPECT_EQ(best.needed_bytes,
            *std::max_element(price.arena_bytes.begin(), price.arena_bytes.end()));
}

TEST(MachinePlan, WhereNothingFitsTheNearestIsNamed) {
  PlanRequest request = machine_request();
  request.cluster.device.memory_bytes = 1000;
  const Plan plan = make_plan(request, {});
  EXPECT_TRUE(plan.layouts.empty());
  ASSERT_TRUE(plan.nearest.has_value());
  EXPECT_EQ(spare_bytes(request, *plan.nearest), 2000 - plan.nearest->machine_bytes);
  EXPECT_GT(plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram)), 0);
}

TEST(MachinePlan, WithLittleWorkTheRestIsCountedAsNotPriced) {
  const PlanRequest request = machine_request();
  const Plan plan = make_machine_plan(request, {}, 100);
  EXPECT_FALSE(plan.layouts.empty());
  EXPECT_GT(plan.not_priced, 0);
  EXPECT_EQ(counted(plan), plan.searched);
}

TEST(MachinePlan, AThirdOfTheWorkFindsTheSameBest) {
  const PlanRequest request = machine_request();
  const PlanSpace space(request);
  double work = 0;
  for (std::size_t i = 0; i < space.degrees().size(); ++i) {
    static_cast<void>(space.list(
        i, [&](std::uint64_t, const Workload& workload) { work += pricing_work(workload); }));
  }
  const Plan all = make_plan(request, {.top = 1});
  const Plan some = make_machine_plan(request, {.top = 1}, work / 3);
  EXPECT_GT(some.not_priced, 0);
  EXPECT_EQ(some.layouts.at(0).workload.layout, all.layouts.at(0).workload.layout);
}

Plan three_layouts(double second_seconds) {
  Plan plan;
  plan.layouts.resize(3);
  plan.layouts[0].estimate.seconds.compute = 1;
  plan.layouts[0].meetings = 200;
  plan.layouts[1].estimate.seconds.compute = second_seconds;
  plan.layouts[1].meetings = 40;
  plan.layouts[2].estimate.seconds.compute = 2;
  return plan;
}

TEST(Steadiest, HasTheFewestMeetingsOfThoseThatPredictionsDoNotTellApart) {
  EXPECT_EQ(steadiest(three_layouts(1.05)), 1U);
}

TEST(Steadiest, IsTheFastestWhereItLeadsByMore) {
  EXPECT_EQ(steadiest(three_layouts(1.06)), 0U);
}

std::int64_t meetings(const Layout& layout) {
  const PlanRequest request = machine_request();
  return machine_layout(request, {.model = request.model,
                                  .layout = layout,
                                  .batch = {.seq = 8, .micro_batch = 1, .global_batch = 4},
                                  .precision = request.precision})
      .meetings;
}

TEST(MachinePlan, ReplicasThatReduceOnceMeetLessOftenThanTensorParallelRanks) {
  EXPECT_LT(meetings({.dp = 2}), meetings({.tp = 2}));
}

TEST(MachinePlan, ReplicasThatReduceOnceMeetLessOftenThanTwoThreads) {
  if (num_available_cores() < 2) GTEST_SKIP() << "needs teams of two threads";
  EXPECT_LT(meetings({.dp = 2}), meetings({}));  // threads meet behind each kernel
}

TEST(MachinePlan, ASignalEndsIt) {
  std::atomic<int> signal{2};
  const Plan plan = make_plan(machine_request(), {.control = {.stop = &signal}});
  EXPECT_TRUE(plan.is_stopped);
  EXPECT_EQ(plan.num_fitting, 0);
  EXPECT_GT(plan.not_priced, 0);
}

TEST(MachinePlan, KeepsWhatIsNotSearched) {
  if (num_available_cores() < 2) GTEST_SKIP() << "needs teams of two threads";
  PlanRequest request = machine_request();
  request.trainer = {.threads_per_rank = 2, .bucket_mib = 3};
  const PlannedLayout best = make_plan(request, {.top = 1}).layouts.at(0);
  EXPECT_EQ(best.threads_per_rank, 2);
  EXPECT_EQ(best.workload.layout.bucket_mib, 3);
}

// Every transfer and every update takes as long whatever its size: one bucket is best.
TEST(MachinePlan, ChoosesTheSizeOfBuckets) {
  PlanRequest request = machine_request();
  request.spec->hidden = 768;
  request.spec->ffn = 3072;
  request.spec->head_dim = 192;
  request.model = shape_of(*request.spec);
  request.limits.dp = 2;
  request.limits.zero = 0;
  EXPECT_EQ(make_plan(request, {.top = 1}).layouts.at(0).workload.layout.bucket_mib, 100);
}

TEST(MachinePlan, AnotherFrameworkIsRefused) {
  PlanRequest request = machine_request();
  request.profile = read_profile("nanotron", request.cluster);
  EXPECT_THROW(check_request(request), UsageError);
}

TEST(MachinePlan, IsExplained) {
  const PlanRequest request = machine_request();
  const Plan plan = make_plan(request, {});
  const Explanation why = explain(request, plan, {});
  ASSERT_EQ(why.changes.size(), 1U);
  EXPECT_EQ(why.changes[0].change, "twice the global batch");
  EXPECT_EQ(why.device_bytes, 2e9);
  EXPECT_CONTAINS(why.binding, "compute: ");
}

}  // namespace
}  // namespace trireme
