#include "trireme/cli/plan_page.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/plan/plan_test_request.h"
#include "trireme/simulate/step_simulation.h"

namespace trireme {
namespace {

constexpr std::int64_t kMany = 1'000'000'000;

/// Layouts of qwen2.5-0.5b on 4 devices with 2 stages: 64 micro-batches.
PlanRequest two_stages(const std::string& framework = "trireme") {
  PlanRequest request = plan_request("qwen2.5-0.5b", 4, 128, framework, 512);
  request.limits.pp = 2;
  request.limits.dp = 2;
  request.limits.micro_batch = 1;
  return request;
}

Plan plan_of(const PlanRequest& request) {
  return make_plan(request, {.top = 3, .control = {}});
}

std::string page_of(const PlanRequest& request) {
  return plan_html(request, plan_of(request), {}, std::nullopt);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PlanPage, MarksTheBestLayout) {
  const std::string page = page_of(two_stages());
  const std::size_t marked = page.find("<tr class=\"marked\"><td class=\"right\">1</td>");
  EXPECT_NE(marked, std::string::npos);
  EXPECT_EQ(page.find("<tr class=\"marked\">", marked + 1), std::string::npos);
}

TEST(PlanPage, HasAPictureOfEachKind) {
  const std::string page = page_of(two_stages());
  for (const char* const part : {"from the best layout to the runner-up", "seconds of a step",
                                 "memory of the fullest rank, by kind", "a device has 79.6 GiB",
                                 ">simulated: ", "peak of rank"})
    EXPECT_TRUE(contains(page, part)) << part;
}

TEST(PlanPage, SaysWhoseProgramItShows) {
  EXPECT_TRUE(contains(page_of(two_stages("nanotron")), "The program is Trireme's: nanotron runs"));
  EXPECT_FALSE(contains(page_of(two_stages()), "The program is Trireme's"));
}

TEST(PlanPage, OneLayoutHasNoRunnerUp) {
  const PlanRequest request = two_stages();
  Plan plan = plan_of(request);
  plan.layouts.resize(1);
  EXPECT_FALSE(contains(plan_html(request, plan, {}, std::nullopt), "runner-up"));
}

TEST(PlanPage, AModelKnownByItsSizesHasNoTimeline) {
  const std::string page = page_of(plan_request("gpt3-5b", 8, 64, "megatron", 2048));
  EXPECT_TRUE(contains(page, "Trireme has no program for the best layout"));
  EXPECT_TRUE(contains(page, "What fills the memory"));
}

TEST(PlanPage, OfAMachineShowsAllRanksOnItsCores) {
  PlanRequest request = machine_request();
  request.limits.dp = 2;
  const std::string page = page_of(request);
  for (const char* const part : {"small on 2 ranks of ", "tokens/s/core", "memory of all ranks",
                                 "share the machine's 1.9 GiB", ">threads<", ">rank 1<"})
    EXPECT_TRUE(contains(page, part)) << part;
  for (const char* const part : {"a device has", "GPU", "8 of 10"})
    EXPECT_FALSE(contains(page, part)) << part;
}

TEST(PlannedStep, AShortStepHasAllMicroBatches) {
  const PlanRequest request = two_stages();
  const PlannedStep step = planned_step(request, plan_of(request).layouts.front(), kMany);
  EXPECT_EQ(step.micro_batches, 64);
  EXPECT_EQ(step.build.batch.global_batch, 128);
}

TEST(PlannedStep, ALongStepFillsThePipelineTwice) {
  const PlanRequest request = two_stages();
  const PlannedStep step = planned_step(request, plan_of(request).layouts.front(), 1);
  EXPECT_EQ(step.micro_batches, 4);
  EXPECT_EQ(step.of, 64);
  EXPECT_EQ(step.build.batch.global_batch, 8);
}

TEST(PlannedStep, HasAsManyInstructionsAsAreAllowed) {
  const PlanRequest request = two_stages();
  const PlannedLayout best = plan_of(request).layouts.front();
  const auto count = [&](const PlannedStep& step) {
    std::int64_t instructions = 0;
    for (const Program& each : simulate_pipeline(step.build, request.cluster).programs)
      instructions += each.num_instructions();
    return instructions;
  };
  const std::int64_t all = count(planned_step(request, best, kMany));
  const std::int64_t half = count(planned_step(request, best, all / 2));
  EXPECT_LT(half, 0.6 * static_cast<double>(all));
  EXPECT_GT(half, 0.3 * static_cast<double>(all));
}

TEST(PlannedStep, RefusesAPrecisionThatTriremeDoesNotCompute) {
  PlanRequest request = two_stages();
  const PlannedLayout best = plan_of(request).layouts.front();
  request.precision = ComputePrecision::kFp8;
  EXPECT_THROW(static_cast<void>(planned_step(request, best, kMany)), UsageError);
}

}  // namespace
}  // namespace trireme
