#include "trireme/plan/planner.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "trireme/base/csv.h"
#include "trireme/base/units.h"
#include "trireme/plan/plan_test_request.h"
#include "trireme/plan/predict_table.h"
#include "trireme/plan/program_memory.h"
#include "trireme/program/pipeline.h"

namespace trireme {
namespace {

/// Prices in closed form alone.
PlanOptions closed_form(std::size_t top) {
  return {.top = top, .control = {}, .reprice = {}};
}

TEST(Plan, IsOrderedByTime) {
  const Plan plan = make_plan(plan_request("llama-3-8b", 32, 64), closed_form(20));
  ASSERT_EQ(plan.layouts.size(), 20U);
  EXPECT_TRUE(std::is_sorted(
      plan.layouts.begin(), plan.layouts.end(),
      [](const auto& a, const auto& b) { return a.step_seconds() < b.step_seconds(); }));
}

TEST(Plan, OffersTheBestOfEachCutFirst) {
  const Plan plan = make_plan(plan_request("llama-3-8b", 32, 64), closed_form(8));
  std::set<std::array<int, 4>> cuts;
  for (const PlannedLayout& each : plan.layouts) {
    const Layout& layout = each.workload.layout;
    cuts.insert({layout.tp, layout.cp, layout.pp, layout.dp});
  }
  EXPECT_EQ(cuts.size(), 8U);
}

TEST(Plan, FillsUpWithTheNextBestOfACut) {
  PlanRequest request = plan_request("llama-3-8b", 8, 64);
  request.limits = {.tp = 2, .cp = 1, .pp = 2};
  EXPECT_EQ(make_plan(request, closed_form(10)).layouts.size(), 10U);
}

TEST(Plan, TheTrainerTakesEveryLayoutThatTheSearchLeaves) {
  const PlanRequest request = plan_request("tinyllama-1.1b", 12, 24, "trireme", 2048);
  const PlanSpace space(request);
  const SearchResult found = search(space, {});
  ASSERT_GT(found.fitting.size(), 1000U);
  for (const PricedLayout& each : found.fitting) {
    const Workload workload = space.layout_of(each.number);
    SCOPED_TRACE(layout_text(workload.layout, workload.batch));
    ASSERT_NO_THROW(check_layout(*request.spec, workload.layout, workload.batch));
    ASSERT_NO_THROW(
        Pipeline(*request.spec, workload.layout, narrow<int>(workload.num_micro_batches())));
  }
}

TEST(Plan, MemoryOfTriremesLayoutsIsThatOfTheirPrograms) {
  const PlanRequest request = plan_request("tinyllama-1.1b", 4, 8, "trireme", 2048);
  const Plan plan = make_plan(request, {.top = 3});
  ASSERT_EQ(plan.layouts.size(), 3U);
  for (const PlannedLayout& each : plan.layouts) {
    const auto arenas = stage_arena_bytes({.spec = *request.spec,
                                           .layout = each.workload.layout,
                                           .batch = each.workload.batch,
                                           .compute = DType::kBf16},
                                          0);
    const auto fullest = static_cast<double>(*std::max_element(arenas.begin(), arenas.end()));
    EXPECT_EQ(each.needed_bytes, fullest + each.estimate.overhead_bytes);
    EXPECT_TRUE(each.is_from_program);
  }
}

class ClosedFormMemory : public testing::TestWithParam<const char*> {};

/// What the search prunes by, against the placed program.
TEST_P(ClosedFormMemory, IsWithinATenthOfTheProgram) {
  PlanRequest request = plan_request("llama-3-8b", 8, 64, "trireme", 8192);
  request.limits = {.tp = 2, .pp = 4, .micro_batch = 1, .zero = 0, .schedule = GetParam()};
  Plan plan = make_plan(request, {.top = 1});
  ASSERT_EQ(plan.layouts.size(), 1U);
  const PlannedLayout& best = plan.layouts.front();
  EXPECT_NEAR(best.estimate.needed_bytes / best.needed_bytes, 1, 0.1)
      << layout_text(best.workload.layout, best.workload.batch);
}
INSTANTIATE_TEST_SUITE_P(Schedules, ClosedFormMemory,
                         testing::Values("1f1b", "interleaved", "zb-h1", "zb-v"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Plan, ARuleOfTheSecondPricingIsCountedAndTheNextIsOffered) {
  const PlanRequest request = plan_request("llama-3-8b", 8, 16);
  const Plan all = make_plan(request, closed_form(2));
  PlanOptions options = closed_form(1);
  const Layout& best = all.layouts.front().workload.layout;
  options.reprice = [&](const PlanRequest&, PlannedLayout& planned) -> std::optional<PlanRule> {
    if (planned.workload.layout == best) return PlanRule::kProgram;
    return std::nullopt;
  };
  const Plan plan = make_plan(request, options);
  EXPECT_EQ(plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram)), 1);
  EXPECT_GE(plan.layouts.front().step_seconds(), all.layouts.front().step_seconds());
}

TEST(Plan, WhereNothingFitsTheNearestIsNamed) {
  const Plan plan = make_plan(plan_request("llama-3.1-405b", 8, 16), {});
  EXPECT_TRUE(plan.layouts.empty());
  ASSERT_TRUE(plan.nearest.has_value());
  EXPECT_GT(plan.nearest->needed_bytes, read_cluster("h100-dgx").device.memory_bytes);
}

TEST(Plan, NothingIsBetterInBothThanALayoutOfTheParetoFront) {
  PlanOptions options = closed_form(10);
  options.has_pareto = true;
  const Plan plan = make_plan(plan_request("llama-3-8b", 16, 32), options);
  ASSERT_GT(plan.pareto.size(), 2U);
  for (std::size_t i = 1; i < plan.pareto.size(); ++i) {
    EXPECT_LT(plan.pareto[i].needed_bytes, plan.pareto[i - 1].needed_bytes);
    EXPECT_GE(plan.pareto[i].step_seconds(), plan.pareto[i - 1].step_seconds());
  }
}

TEST(Plan, UtilisationFollowsFromTokensAndFlops) {
  const PlanRequest request = plan_request("llama-3-8b", 8, 16, "trireme", 8192);
  const Plan plan = make_plan(request, closed_form(1));
  const PlannedLayout& best = plan.layouts.front();
  // 6 N' and 12 L H D S at 8,192 tokens, the latter halved (docs/prediction.md).
  const double per_device = best.tokens_per_second_per_device();
  EXPECT_NEAR(mfu_full(best, request.cluster),
              per_device * (45'029'548'032 + 12'884'901'888) / 989e12, 1e-12);
  EXPECT_NEAR(mfu_causal(best, request.cluster),
              per_device * (45'029'548'032 + 6'442'450'944) / 989e12, 1e-12);
}

TEST(Plan, TheBandOfNanotronCoversEightOfTenPublishedRuns) {
  const std::filesystem::path path = std::filesystem::path(TRIREME_PUBLISHED) / "playbook_dev.csv";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const CsvTable runs = parse_csv(text, "runs");
  PredictRequest request{.cluster = read_cluster("h100-playbook"), .framework = "nanotron"};
  const CsvTable predicted = predict_table(runs, request);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(
        std::find(predicted.header.begin(), predicted.header.end(), name) -
        predicted.header.begin());
  };
  const Profile profile = read_profile("nanotron", request.cluster);
  double covered = 0, all = 0;
  for (const std::vector<std::string>& row : predicted.rows) {
    if (!row[column("flag")].empty()) continue;
    const double longer =
        std::stod(row[column("pred_tok_s_gpu")]) / std::stod(row[column("tok_s_gpu")]);
    covered += profile.band_low <= longer && longer <= profile.band_high ? 1 : 0;
    ++all;
  }
  EXPECT_NEAR(covered / all, 0.8, 0.02);
}

}  // namespace
}  // namespace trireme
