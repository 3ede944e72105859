#include "trireme/simulate/core_clock.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

CoreOp op(double seconds, int threads = 1) {
  return {.seconds = {.alone = seconds, .busy = seconds}, .threads = threads};
}

/// Ranks that do not meet, each with ops of one queue.
RendezvousSystem apart(const std::vector<std::size_t>& num_ops) {
  RendezvousSystem system;
  for (const std::size_t count : num_ops) system.ranks.emplace_back(count);
  return system;
}

TEST(CoreClock, RanksWithACoreEachRunAtTheSameTime) {
  const CoreClock clock = run_core_clock(apart({2, 1}), {{op(1), op(2)}, {op(2)}}, 2, 0);
  EXPECT_DOUBLE_EQ(clock.makespan, 3);
  EXPECT_DOUBLE_EQ(clock.busy[0], 3);
  EXPECT_DOUBLE_EQ(clock.busy[1], 2);
}

TEST(CoreClock, MoreThreadsThanCoresShareThem) {
  const CoreClock clock =
      run_core_clock(apart({1, 1, 1, 1}), {{op(1)}, {op(1)}, {op(1)}, {op(1)}}, 2, 0);
  EXPECT_DOUBLE_EQ(clock.makespan, 2);
}

TEST(CoreClock, ATeamOfThreadsNeedsAsManyCores) {
  const CoreClock clock = run_core_clock(apart({1, 1}), {{op(1, 2)}, {op(1, 2)}}, 2, 0);
  EXPECT_DOUBLE_EQ(clock.makespan, 2);
}

TEST(CoreClock, WhoIsAloneIsFaster) {
  const CoreOp each = {.seconds = {.alone = 1, .busy = 2}};
  // Two seconds together; then the second op of rank 0 by itself.
  EXPECT_DOUBLE_EQ(run_core_clock(apart({2, 1}), {{each, each}, {each}}, 2, 0).makespan, 3);
}

TEST(CoreClock, ACollectiveStartsWhenAllHaveBegun) {
  RendezvousSystem system = apart({2, 2});
  system.ranks[0][1].meets = {0};
  system.ranks[1][1].meets = {0};
  const CoreClock clock = run_core_clock(system, {{op(1), op(0.5)}, {op(3), op(0.5)}}, 2, 0);
  EXPECT_DOUBLE_EQ(clock.makespan, 3.5);
}

TEST(CoreClock, WhoWaitsForOthersWakesUpFirst) {
  RendezvousSystem system = apart({1, 2});
  system.ranks[0][0].meets = {0};
  system.ranks[1][1].meets = {0};
  EXPECT_DOUBLE_EQ(run_core_clock(system, {{op(1)}, {op(3), op(1)}}, 2, 0.25).makespan, 4.25);
}

// Ops shorter than the clock can count at its time must not stop it.
TEST(CoreClock, ShortOpsLateInALongStepEnd) {
  std::vector<CoreOp> ops(1, op(1e6 / 3));
  ops.insert(ops.end(), 100, op(3e-13));
  const CoreClock clock = run_core_clock(apart({101, 101}), {ops, ops}, 1, 1e-12);
  EXPECT_NEAR(clock.makespan, 2e6 / 3, 1);
}

TEST(CoreClock, AnotherQueueWakesUpFirst) {
  RendezvousSystem system = apart({2});
  system.ranks[0][1].queue = 1;
  system.ranks[0][1].after = {0};
  EXPECT_DOUBLE_EQ(run_core_clock(system, {{op(1), op(1)}}, 2, 0.25).makespan, 2.25);
}

}  // namespace
}  // namespace trireme
