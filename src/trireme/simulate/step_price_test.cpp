#include "trireme/simulate/step_price.h"

#include <gtest/gtest.h>

#include "trireme/program/test_programs.h"
#include "trireme/simulate/test_machine.h"

namespace trireme {
namespace {

double seconds_of(Layout layout, std::int64_t global_batch) {
  const BuildRequest request =
      small_request(std::move(layout), {.seq = 8, .micro_batch = 1, .global_batch = global_batch});
  return price_step(all_ranks(request), 1, MachinePrices(even_machine(1))).makespan;
}

TEST(PriceStep, OneRankTakesTheSumOfItsInstructions) {
  const BuildRequest request = small_request({}, {.seq = 8, .micro_batch = 1, .global_batch = 1});
  const std::vector<Program> programs = all_ranks(request);
  const CoreClock clock = price_step(programs, 1, MachinePrices(even_machine(1)));
  // The product tables of the even machine hold one shape: other instructions take a second each.
  EXPECT_NEAR(clock.makespan, clock.busy[0], 1e-9);
  EXPECT_GE(clock.makespan, static_cast<double>(programs[0].num_instructions()));
}

TEST(PriceStep, APipelineOfTwoIsFasterThanOneRank) {
  EXPECT_LT(seconds_of({.pp = 2}, 8), seconds_of({}, 8));
}

TEST(PriceStep, TwiceTheRanksOnTheSameCoresGainNothing) {
  EXPECT_GE(seconds_of({.dp = 4}, 8), 0.99 * seconds_of({.dp = 2}, 8));
}

TEST(PriceStep, EveryKindOfParallelismHasAPrice) {
  for (const Layout& layout :
       {Layout{.tp = 2}, Layout{.dp = 2, .zero = 3}, Layout{.pp = 2, .schedule = "zb-h1"},
        Layout{.cp = 2}, Layout{.cp = 2, .cp_comm = CpComm::kAllGather}}) {
    if (layout.tp == 2) continue;  // the small model has one key head
    EXPECT_GT(seconds_of(layout, 8), 0);
  }
}

}  // namespace
}  // namespace trireme
