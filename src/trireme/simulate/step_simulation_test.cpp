#include "trireme/simulate/step_simulation.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/program/test_programs.h"
#include "trireme/simulate/device_prices.h"
#include "trireme/simulate/memory_use.h"
#include "trireme/simulate/step_terms.h"

namespace trireme {
namespace {

constexpr Batch kBatch{.seq = 8, .micro_batch = 1, .global_batch = 8};

StepSimulation simulate(Layout layout) {
  ModelSpec spec = small_llama();
  spec.heads = spec.kv_heads = 2;
  return simulate_pipeline(small_request(std::move(layout), kBatch, spec),
                           read_cluster("h100-dgx"));
}

/// Of layouts that differ in what lives how long.
class StepSimulationOf : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static StepSimulation simulation() {
    Layout layout;
    Batch batch = kBatch;
    parse_layout_text(GetParam(), layout, batch);
    return simulate(layout);
  }
};

TEST(SimulatePipeline, HasTheFirstRankOfEachStage) {
  const StepSimulation simulation = simulate({.pp = 2, .dp = 2});
  ASSERT_EQ(simulation.programs.size(), 2U);
  EXPECT_EQ(simulation.programs[0].request.rank, 0);
  EXPECT_EQ(simulation.programs[1].request.rank, 2);
}

TEST(SimulatePipeline, TakesAsLongAsTheWholeWorld) {
  const BuildRequest request = small_request({.pp = 2, .dp = 2}, kBatch);
  const Cluster cluster = read_cluster("h100-dgx");
  const DevicePrices prices(cluster);
  EXPECT_NEAR(simulate_pipeline(request, cluster).clock.makespan,
              price_step(all_ranks(request), prices.step_prices()).makespan, 1e-12);
}

TEST(SimulatePipeline, RefusesALayoutThatTheTrainerRefuses) {
  EXPECT_THROW(static_cast<void>(simulate({.dp = 3})), UsageError);
}

TEST_P(StepSimulationOf, NeverHoldsMoreThanItsArena) {
  const StepSimulation simulation = StepSimulationOf::simulation();
  for (std::size_t i = 0; i < simulation.programs.size(); ++i) {
    SCOPED_TRACE(i);
    const MemoryUse use = memory_use(simulation.programs[i], simulation.clock.times[i]);
    EXPECT_LE(use.peak.bytes, simulation.placements[i].arena_bytes);
  }
}

TEST_P(StepSimulationOf, WhatLivesAtThePeakSumsToIt) {
  const StepSimulation simulation = StepSimulationOf::simulation();
  for (std::size_t i = 0; i < simulation.programs.size(); ++i) {
    SCOPED_TRACE(i);
    const MemoryPeak peak = memory_use(simulation.programs[i], simulation.clock.times[i]).peak;
    EXPECT_EQ(
        std::accumulate(peak.live.begin(), peak.live.end(), std::int64_t{0},
                        [](std::int64_t sum, const LiveBuffer& live) { return sum + live.bytes; }),
        peak.bytes);
  }
}

TEST_P(StepSimulationOf, TermsSumToTheStep) {
  const StepSimulation simulation = StepSimulationOf::simulation();
  const CoreClock& clock = simulation.clock;
  const StepSeconds terms =
      step_terms(simulation.programs[0], clock.times[0], clock.makespan, clock.makespan);
  EXPECT_NEAR(terms.total(), clock.makespan, 1e-12);
}

TEST_P(StepSimulationOf, TermsComputeAsLongAsTheRankIsBusy) {
  const StepSimulation simulation = StepSimulationOf::simulation();
  const CoreClock& clock = simulation.clock;
  const StepSeconds terms =
      step_terms(simulation.programs[0], clock.times[0], clock.makespan, clock.makespan);
  EXPECT_NEAR(terms.compute + terms.optimizer, clock.busy[0], 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Layouts, StepSimulationOf,
                         testing::Values("pp=1", "dp=2 zero=3", "pp=2 schedule=1f1b",
                                         "pp=2 schedule=zb-h1", "pp=2 dp=2 recompute=full",
                                         "tp=2 sp=1", "cp=2"),
                         [](const auto& layout) {
                           std::string name = layout.param;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(MemoryUse, OfOneRankPeaksAtTheLowerBoundOfItsPlacement) {
  const StepSimulation simulation = simulate({});
  EXPECT_EQ(memory_use(simulation.programs[0], simulation.clock.times[0]).peak.bytes,
            simulation.placements[0].lower_bound_bytes);
}

TEST(MemoryUse, OfAFirstStageOfTwoHoldsTwoMicroBatches) {
  const StepSimulation simulation = simulate({.pp = 2});
  const MemoryPeak peak = memory_use(simulation.programs[0], simulation.clock.times[0]).peak;
  EXPECT_TRUE(std::any_of(peak.live.begin(), peak.live.end(),
                          [](const LiveBuffer& live) { return live.copies == 2; }));
}

TEST(MemoryUse, EndsWithWhatIsKeptFromStepToStep) {
  const StepSimulation simulation = simulate({.pp = 2});
  const MemoryUse use = memory_use(simulation.programs[0], simulation.clock.times[0]);
  EXPECT_EQ(use.samples.back().bytes, use.samples.front().bytes);
}

TEST(InstructionText, NamesTheMicroBatch) {
  const Program program = build_train(small_request({}, kBatch));
  const std::vector<int> bases = call_bases(program);
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    if (program.calls[c].micro_batch != 3) continue;
    EXPECT_TRUE(instruction_text(program, bases[c]).ends_with(", micro-batch 3"));
    return;
  }
  FAIL() << "no call of micro-batch 3";
}

}  // namespace
}  // namespace trireme
