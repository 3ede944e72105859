#include "trireme/cost/stages.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "trireme/program/schedules/schedules.h"
#include "trireme/program/schedules/virtual_clock.h"

namespace trireme {
namespace {

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
