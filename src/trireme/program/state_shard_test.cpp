#include "trireme/program/state_shard.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(StateShard, WithoutZeroTheFirstReplicaHandsOverAll) {
  for (const MemoryKind kind : {MemoryKind::kParameters, MemoryKind::kMaster, MemoryKind::kMoments,
                                MemoryKind::kGradients}) {
    EXPECT_EQ(state_shard({.dp = 4}, 0, kind), StateShard{});
    EXPECT_EQ(state_shard({.dp = 4}, 2, kind), (StateShard{.is_first_copy = false}));
  }
}

TEST(StateShard, Zero1DividesAllButParameters) {
  const Layout layout{.dp = 4, .zero = 1};
  for (const MemoryKind kind :
       {MemoryKind::kMaster, MemoryKind::kMoments, MemoryKind::kGradients}) {
    EXPECT_EQ(state_shard(layout, 2, kind), (StateShard{.num_shards = 4, .index = 2}));
  }
  EXPECT_EQ(state_shard(layout, 2, MemoryKind::kParameters), (StateShard{.is_first_copy = false}));
}

TEST(StateShard, OfHybridShardingIsHandedOverByTheFirstGroup) {
  const Layout layout{.dp = 4, .zero = 1, .dp_shard = 2};
  EXPECT_EQ(state_shard(layout, 1, MemoryKind::kMoments),
            (StateShard{.num_shards = 2, .index = 1}));
  EXPECT_EQ(state_shard(layout, 3, MemoryKind::kMoments),
            (StateShard{.num_shards = 2, .index = 1, .is_first_copy = false}));
}

}  // namespace
}  // namespace trireme
