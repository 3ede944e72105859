#include "trireme/plan/explain.h"

#include <gtest/gtest.h>

#include "trireme/base/test_files.h"
#include "trireme/plan/plan_test_request.h"

namespace trireme {
namespace {

const PlanOptions kClosedForm{.top = 3, .control = {}, .reprice = {}};

std::string refusal(const PlanRequest& request) {
  return impossible_because(request, make_plan(request, kClosedForm));
}

TEST(Waterfall, TermsSumToTheDifferenceOfTheSteps) {
  const Plan plan = make_plan(plan_request("llama-3-70b", 64, 128), kClosedForm);
  double change = 0;
  for (const WaterfallTerm& term : waterfall(plan.layouts[0], plan.layouts[1])) {
    change += term.change();
  }
  EXPECT_NEAR(change, plan.layouts[1].step_seconds() - plan.layouts[0].step_seconds(), 1e-12);
}

TEST(WhySlower, NamesTheTermThatGrowsMost) {
  PlannedLayout best, other;
  best.estimate.seconds = {.compute = 1, .bubble = 0.5};
  other.estimate.seconds = {.compute = 0.9, .bubble = 0.5, .tp = 0.6, .dp = 0.01};
  EXPECT_EQ(why_slower(best, other), "34.0 % slower: +0.6 s exposed tp, +0.01 s exposed dp");
}

TEST(Explain, AChangeForTheBetterIsNeverSlower) {
  const PlanRequest request = plan_request("llama-3-8b", 16, 64);
  const Explanation why = explain(request, make_plan(request, kClosedForm), kClosedForm);
  ASSERT_EQ(why.changes.size(), 4U);
  for (const WhatIf& each : why.changes) EXPECT_GE(each.speedup, 1) << each.change;
}

TEST(Explain, TensorParallelismOutsideOfANodeIsSlower) {
  PlanRequest request = plan_request("llama-3-70b", 64, 128);
  request.model.kv_heads = 64;  // so that 16 ranks have as many
  const Explanation why = explain(request, make_plan(request, kClosedForm), kClosedForm);
  ASSERT_TRUE(why.tp_outside.has_value());
  EXPECT_EQ(why.tp_outside->change, "tp = 16");
  EXPECT_LT(why.tp_outside->speedup, 1);
}

TEST(Explain, StateOfAllParametersIsEighteenBytesEach) {
  const PlanRequest request = plan_request("llama-3-8b", 16, 64);
  const Explanation why = explain(request, make_plan(request, kClosedForm), kClosedForm);
  EXPECT_EQ(why.whole_state_bytes, 18.0 * 8'030'261'248);
}

TEST(Impossible, AFactorOfTheDevicesThatOnlyReplicasTakeIsNamed) {
  PlanRequest request = plan_request("llama-3-8b", 96, 1024);
  request.profile = read_profile("megatron", request.cluster);
  EXPECT_CONTAINS(refusal(request), "leaves dp = 3 or more; use a global batch of 1023 or 1026");
  request.global_batch = 1026;
  EXPECT_FALSE(make_plan(request, kClosedForm).layouts.empty());
}

TEST(Impossible, FixedDegreesAreAsManyDevicesAsTheirProduct) {
  PlanRequest request = plan_request("llama-3-8b", 16, 64);
  request.limits.tp = request.limits.pp = request.limits.dp = 2;
  request.limits.cp = 1;
  EXPECT_CONTAINS(refusal(request), "use 8 devices");
}

TEST(Impossible, AMicroBatchThatDoesNotDivideIsNamed) {
  PlanRequest request = plan_request("llama-3-8b", 16, 64);
  request.limits.micro_batch = 3;
  EXPECT_CONTAINS(refusal(request), "mbs = 3 with a global batch of 64: must divide it");
}

TEST(NodesThatFit, AreNotOnlyDoublings) {
  PlanRequest request = plan_request("llama-3.1-405b", 32, 64);
  const std::optional<int> nodes = nodes_that_fit(request, kClosedForm);
  ASSERT_TRUE(nodes.has_value());
  request.devices = *nodes * request.cluster.node_devices;
  EXPECT_FALSE(make_plan(request, kClosedForm).layouts.empty());
  request.devices -= request.cluster.node_devices;
  EXPECT_TRUE(make_plan(request, kClosedForm).layouts.empty());
}

TEST(Impossible, TensorParallelismAboveTheKeyHeadsNamesWhatDivides) {
  PlanRequest request = plan_request("llama-3-8b", 16, 16);
  request.limits.tp = 16;
  EXPECT_CONTAINS(refusal(request), "kv_heads = 8");
  EXPECT_CONTAINS(refusal(request), "use one of tp = 1, 2, 4, 8");
}

TEST(Impossible, ALengthNamesTheNearestThatDivides) {
  PlanRequest request = plan_request("llama-3-8b", 16, 16, "trireme", 4098);
  request.limits.cp = 4;
  EXPECT_CONTAINS(refusal(request), "use a length of 4096 or 4104");
}

TEST(Impossible, DegreesNameTheDevicesThatTheyMake) {
  PlanRequest request = plan_request("llama-3-8b", 8, 16);
  request.limits.pp = 3;
  EXPECT_CONTAINS(refusal(request), "use 6 or 9 devices");
}

TEST(Impossible, ABatchOfOneNamesTheBatchThatReplicasNeed) {
  PlanRequest request = plan_request("llama-3-8b", 8, 1);
  request.limits.dp = 8;
  EXPECT_CONTAINS(refusal(request), "global batch = 1 on 8 devices");
  EXPECT_CONTAINS(refusal(request), "use a global batch of 8");
}

TEST(Impossible, AStageNamesTheFrameworkThatLacksIt) {
  PlanRequest request = plan_request("llama-3-8b", 8, 16, "nanotron");
  request.limits.zero = 3;
  EXPECT_CONTAINS(refusal(request), "nanotron has: schedules 1f1b, gpipe; zero 0, 1");
}

TEST(Impossible, SevenDevicesGetLayoutsOfSeven) {
  const Plan plan = make_plan(plan_request("llama-3-8b", 7, 1), kClosedForm);
  ASSERT_FALSE(plan.layouts.empty());
  EXPECT_EQ(plan.layouts.front().workload.layout.pp, 7);
}

TEST(NodesThatFit, AreDoubledUntilALayoutDoes) {
  const PlanRequest request = plan_request("llama-3-70b", 8, 128);
  ASSERT_TRUE(make_plan(request, kClosedForm).layouts.empty());
  // 18 bytes of 70.6 billion parameters are 1,183 GiB: 148 on each of 8 devices, 74 of 16.
  EXPECT_EQ(nodes_that_fit(request, kClosedForm), 2);
}

}  // namespace
}  // namespace trireme
