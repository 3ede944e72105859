#include "trireme/cost/collectives.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// Nodes of 8 with links of 100 and NICs of 10 bytes a second, without latency.
Cluster plain_cluster() {
  Cluster cluster;
  cluster.node_devices = 8;
  cluster.link_bytes_per_second = 100;
  cluster.link_efficiency = 1;
  cluster.nics = 8;
  cluster.nic_bytes_per_second = 10;
  cluster.nic_efficiency = 1;
  return cluster;
}

TEST(GroupPlace, TpGroupIsARunOfNeighbours) {
  EXPECT_EQ(group_place(8, 1, 8), (GroupPlace{8, 8}));
  EXPECT_EQ(group_place(16, 1, 8), (GroupPlace{16, 8}));
  EXPECT_EQ(group_place(16, 1, 8).nodes(), 2);
}

TEST(GroupPlace, DpGroupOfTpEightHasOneRankANode) {
  EXPECT_EQ(group_place(4, 8, 8), (GroupPlace{4, 1}));
  EXPECT_EQ(group_place(4, 8, 8).nodes(), 4);
  EXPECT_EQ(group_place(16, 2, 8), (GroupPlace{16, 4}));
}

TEST(CollectiveSeconds, RingInANode) {
  EXPECT_DOUBLE_EQ(collective_seconds(plain_cluster(), Collective::kAllGather,
                                      {.ranks = 4, .ranks_per_node = 4}, 400),
                   400.0 / 100 * 3 / 4);
  EXPECT_DOUBLE_EQ(collective_seconds(plain_cluster(), Collective::kAllReduce,
                                      {.ranks = 4, .ranks_per_node = 4}, 400),
                   2 * 400.0 / 100 * 3 / 4);
}

TEST(CollectiveSeconds, OneRankTakesNone) {
  EXPECT_EQ(collective_seconds(plain_cluster(), Collective::kAllReduce, {}, 400), 0);
}

TEST(CollectiveSeconds, PeersThatShareTheNicsShareTheirBandwidth) {
  const Cluster cluster = plain_cluster();
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {16, 8}), 80);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {4, 2}), 20);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {4, 1}), 10);
}

TEST(CollectiveSeconds, AManyNodeAllReduceOfFewBytesIsATree) {
  Cluster cluster = plain_cluster();
  cluster.network_latency_seconds = 1;
  EXPECT_DOUBLE_EQ(collective_seconds(cluster, Collective::kAllReduce, {64, 1}, 1e-9),
                   2 * 6.0 + 2e-10);
}

TEST(CollectiveSeconds, TheSwitchAddsUpFromItsLeastRanksOn) {
  Cluster cluster = plain_cluster();
  cluster.switch_gain = 1.5;
  cluster.switch_min_ranks = 6;
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {4, 4}), 100);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {8, 8}), 150);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllGather, {8, 8}), 100);
}

TEST(CollectiveSeconds, PairwiseLinksGiveSmallGroupsLess) {
  Cluster cluster = plain_cluster();
  cluster.link_bytes_per_second = 7 * 15;
  cluster.pair_bytes_per_second = 15;
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {2, 2}), 15);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {8, 8}), 105);
}

TEST(CollectiveSeconds, AMeasuredTableReplacesLinksAndNics) {
  Cluster cluster = plain_cluster();
  cluster.all_reduce = {.nodes = {1, 4}, .bytes_per_second = {400, 100}};
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {8, 8}), 400);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {32, 8}), 100);
  EXPECT_DOUBLE_EQ(bus_bytes_per_second(cluster, Collective::kAllReduce, {4, 1}),
                   1 / (1.0 / 100 + 1.0 / 10));
}

TEST(MessageSeconds, BetweenNodesADeviceHasItsShareOfTheNics) {
  EXPECT_DOUBLE_EQ(message_seconds(plain_cluster(), false, 200), 2);
  EXPECT_DOUBLE_EQ(message_seconds(plain_cluster(), true, 200), 20);
}

TEST(PlacesOf, PipelineLeavesTheNodeWhereTheWorldDoes) {
  EXPECT_FALSE(places_of({.pp = 8}, 8).pipe_leaves_node);
  EXPECT_TRUE(places_of({.pp = 2, .dp = 8}, 8).pipe_leaves_node);
  EXPECT_FALSE(places_of({.dp = 16}, 8).pipe_leaves_node);
}

TEST(PlacesOf, HybridShardsAreNeighboursAndCopiesAreApart) {
  const LayoutPlaces places = places_of({.dp = 16, .tp = 2, .zero = 3, .dp_shard = 4}, 8);
  EXPECT_EQ(places.shards, (GroupPlace{.ranks = 4, .ranks_per_node = 4}));
  EXPECT_EQ(places.copies, (GroupPlace{.ranks = 4, .ranks_per_node = 1}));
  EXPECT_EQ(places_of({.dp = 16, .zero = 3}, 8).copies.ranks, 1);
}

}  // namespace
}  // namespace trireme
