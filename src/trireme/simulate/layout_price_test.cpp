#include "trireme/simulate/layout_price.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/program/test_programs.h"
#include "trireme/simulate/test_machine.h"

namespace trireme {
namespace {

constexpr Batch kBatch{.seq = 8, .micro_batch = 1, .global_batch = 8};

TEST(LayoutPrice, HasTheArenaOfEveryRank) {
  const Layout layout{.pp = 2, .dp = 2};
  const ProgramPrice price = price_layout(small_request(layout, kBatch), 1, even_machine(1e-3));
  EXPECT_EQ(price.arena_bytes.size(), 4U);
  EXPECT_EQ(price.busy_seconds.size(), 4U);
}

TEST(LayoutPrice, APublishedClusterIsRefused) {
  EXPECT_THROW(
      static_cast<void>(price_layout(small_request({}, kBatch), 1, read_cluster("h100-dgx"))),
      UsageError);
}

}  // namespace
}  // namespace trireme
