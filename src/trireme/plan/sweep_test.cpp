#include "trireme/plan/sweep.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/plan/plan_test_request.h"

namespace trireme {
namespace {

constexpr const char* kRuns =
    "model,nodes,dp,tp,pp,mbs,zero,tok_s_gpu,flag\n"
    "8B,1,1,8,1,1,0,4000,\n"
    "8B,1,1,1,8,1,0,6806.5,\n"
    "8B,1,2,4,1,1,1,9000,stalled\n"
    "8B,2,1,8,2,1,0,1,\n";

TEST(PublishedRuns, LeaveOutWhatIsFlagged) {
  const auto runs = published_runs(parse_csv(kRuns, "runs"), "runs");
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[1].layout.pp, 8);
  EXPECT_EQ(runs[1].tokens_per_second_per_device, 6806.5);
}

TEST(PublishedRuns, RefuseATableWithoutAColumn) {
  EXPECT_THROW(static_cast<void>(published_runs(parse_csv("model,nodes\n8B,1\n", "x"), "x")),
               UsageError);
}

TEST(PublishedRuns, RefuseACellThatIsNoNumber) {
  const char* const text = "model,nodes,dp,tp,pp,mbs,zero,tok_s_gpu\n8B,one,1,8,1,1,0,4000\n";
  EXPECT_THROW(static_cast<void>(published_runs(parse_csv(text, "x"), "x")), UsageError);
}

TEST(Sweep, ShowsTheFastestPublishedRunOfTheCell) {
  const PlanRequest request = plan_request("8B", 8, 256, "nanotron");
  const SweepCell cell = sweep_cell(request, published_runs(parse_csv(kRuns, "runs"), "runs"), {});
  ASSERT_TRUE(cell.published.has_value());
  EXPECT_EQ(cell.published->tokens_per_second_per_device, 6806.5);
  ASSERT_TRUE(cell.best.has_value());
  EXPECT_GE(cell.best->tokens_per_second_per_device(),
            cell.published_as->tokens_per_second_per_device());
}

}  // namespace
}  // namespace trireme
