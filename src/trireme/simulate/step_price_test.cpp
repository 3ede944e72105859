#include "trireme/simulate/step_price.h"

#include <gtest/gtest.h>

#include "trireme/program/test_programs.h"
#include "trireme/simulate/test_machine.h"

namespace trireme {
namespace {

CoreClock even_step(const std::vector<Program>& programs) {
  const MachinePrices prices(even_machine(1));
  return price_step(programs, machine_step_prices(prices, 1));
}

double seconds_of(Layout layout, std::int64_t global_batch) {
  const BuildRequest request =
      small_request(std::move(layout), {.seq = 8, .micro_batch = 1, .global_batch = global_batch});
  return even_step(all_ranks(request)).makespan;
}

TEST(PriceStep, OneRankTakesTheSumOfItsInstructions) {
  const BuildRequest request = small_request({}, {.seq = 8, .micro_batch = 1, .global_batch = 1});
  const std::vector<Program> programs = all_ranks(request);
  const CoreClock clock = even_step(programs);
  // Products and attention of the even machine take longer: their tables hold one shape.
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
  ModelSpec spec = small_llama();
  spec.heads = spec.kv_heads = 2;
  for (const Layout& layout : {Layout{.tp = 2}, Layout{.tp = 2, .sp = true}, Layout{.cp = 2},
                               Layout{.cp = 2, .cp_comm = CpComm::kAllGather},
                               Layout{.dp = 2, .zero = 3}, Layout{.pp = 2, .schedule = "zb-h1"}}) {
    const Batch batch{.seq = 8, .micro_batch = 1, .global_batch = 8};
    SCOPED_TRACE(layout_text(layout, batch));
    const std::vector<Program> programs = all_ranks(small_request(layout, batch, spec));
    EXPECT_GT(even_step(programs).makespan, 0);
  }
}

}  // namespace
}  // namespace trireme
