// Seconds of collectives and messages on a cluster: latency per hop and bandwidth, by where the
// ranks of a group sit.
#pragma once

#include "trireme/cost/cluster.h"
#include "trireme/layout/layout.h"

namespace trireme {

/// How the ranks of a group lie on nodes.
struct GroupPlace {
  int ranks = 1;
  int ranks_per_node = 1;
  [[nodiscard]] int nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
  bool operator==(const GroupPlace&) const = default;
};

/// The place of `ranks` ranks that are `stride` apart in the world's order.
[[nodiscard]] GroupPlace group_place(int ranks, int stride, int node_devices);

/// The groups of a layout. Gradients are summed over dp and cp, which hybrid sharding cuts into
/// groups that share one copy of the state, and groups across the copies.
struct LayoutPlaces {
  GroupPlace tp;
  GroupPlace cp;
  GroupPlace shards;              ///< without hybrid sharding all of dp and cp
  GroupPlace copies;              ///< without it one rank
  bool pipe_leaves_node = false;  ///< a message to the next stage
};
[[nodiscard]] LayoutPlaces places_of(const Layout& layout, int node_devices);

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kReduceScatter };

/// Bytes that go over each link of the group's ring in one second, while the other groups of the
/// nodes do the same: NICs are shared by the node's groups. From the cluster's measured table if it
/// has one; then a group of some of a node's ranks is also held up by its share of the NICs.
[[nodiscard]] double bus_bytes_per_second(const Cluster& cluster, Collective collective,
                                          const GroupPlace& place);

/// Seconds of a collective whose full tensor has `bytes`: the lesser of a ring, (n - 1) / n * bytes
/// (all-reduce: twice) over the bus and as many hops, and a tree of all-reduce with 2 log2(n) hops
/// (Thakur, Rabenseifner, Gropp 2005; Hu et al. 2025, arXiv:2507.04786). 0 for one rank.
[[nodiscard]] double collective_seconds(const Cluster& cluster, Collective collective,
                                        const GroupPlace& place, double bytes);

/// Seconds of one message between two ranks, while their node's other devices send as well.
[[nodiscard]] double message_seconds(const Cluster& cluster, bool leaves_node, double bytes);

}  // namespace trireme
