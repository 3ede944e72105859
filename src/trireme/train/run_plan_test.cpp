#include "trireme/train/run_plan.h"

#include <gtest/gtest.h>

#include "trireme/program/test_programs.h"
#include "trireme/simulate/layout_price.h"
#include "trireme/simulate/test_machine.h"

namespace trireme {
namespace {

constexpr Batch kBatch{.seq = 8, .micro_batch = 1, .global_batch = 8};

TEST(RunPlan, MemoryIsWhatItsLayoutIsPricedWith) {
  for (const Layout& layout :
       {Layout{}, Layout{.dp = 2, .zero = 3}, Layout{.pp = 2, .schedule = "zb-h1"}}) {
    SCOPED_TRACE(layout_text(layout, kBatch));
    TrainConfig config;
    config.model.spec = small_llama();
    config.layout = layout;
    config.batch = kBatch;
    config.precision.compute = Precision::kFp32;
    config.ranks.threads_per_rank = 1;
    const RunPlan plan = make_run_plan(config, 0);
    const ProgramPrice price = price_layout(small_request(layout, kBatch), 1, even_machine(1e-3));
    ASSERT_EQ(price.arena_bytes.size(), plan.ranks.size());
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      EXPECT_EQ(price.arena_bytes[rank], plan.ranks[rank].placement.arena_bytes);
  }
}

}  // namespace
}  // namespace trireme
