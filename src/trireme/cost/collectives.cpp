#include "trireme/cost/collectives.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme {
namespace {

const BandwidthByNodes& measured(const Cluster& cluster, Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return cluster.all_reduce;
    case Collective::kAllGather:
      return cluster.all_gather;
    case Collective::kReduceScatter:
      break;
  }
  return cluster.reduce_scatter;
}

/// Of the links of a device that lead to the other ranks of its group.
double link_bytes_per_second(const Cluster& cluster, int ranks) {
  const double all = cluster.link_bytes_per_second * cluster.link_efficiency;
  if (cluster.pair_bytes_per_second <= 0) return all;
  return std::min(all, cluster.pair_bytes_per_second * cluster.link_efficiency * (ranks - 1));
}

int rounds_of_tree(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
}

}  // namespace

GroupPlace group_place(int ranks, int stride, int node_devices) {
  return {.ranks = ranks, .ranks_per_node = std::clamp(node_devices / stride, 1, ranks)};
}

LayoutPlaces places_of(const Layout& layout, int node_devices) {
  const int replicas = layout.dp * layout.cp;
  const int shards = layout.zero == 0 ? replicas : layout.num_shards();
  return {.tp = group_place(layout.tp, 1, node_devices),
          .cp = group_place(layout.cp, layout.tp, node_devices),
          .shards = group_place(shards, layout.tp, node_devices),
          .copies = group_place(replicas / shards, layout.tp * shards, node_devices),
          .pipe_leaves_node = layout.pp > 1 && layout.world() > node_devices};
}

double bus_bytes_per_second(const Cluster& cluster, Collective collective,
                            const GroupPlace& place) {
  const BandwidthByNodes& table = measured(cluster, collective);
  if (place.nodes() == 1) {
    if (!table.empty()) return table.at(1);
    const bool uses_switch = collective == Collective::kAllReduce && cluster.switch_min_ranks > 0 &&
                             place.ranks >= cluster.switch_min_ranks;
    return link_bytes_per_second(cluster, place.ranks) * (uses_switch ? cluster.switch_gain : 1);
  }
  const double share = static_cast<double>(place.ranks_per_node) / cluster.node_devices;
  if (!table.empty()) {
    const double whole = std::min(table.at(place.nodes()), table.at(1));
    if (place.ranks_per_node >= cluster.node_devices) return whole;
    const double of_nics = cluster.nics * cluster.nic_bytes_per_second * share;
    return 1 / (1 / whole + 1 / of_nics);
  }
  const double nics = cluster.nics * cluster.nic_bytes_per_second * cluster.nic_efficiency * share;
  return place.ranks_per_node == 1
             ? nics
             : std::min(nics, link_bytes_per_second(cluster, place.ranks_per_node));
}

double collective_seconds(const Cluster& cluster, Collective collective, const GroupPlace& place,
                          double bytes) {
  if (place.ranks <= 1) return 0;
  const bool is_all_reduce = collective == Collective::kAllReduce;
  const int passes = is_all_reduce ? 2 : 1;
  const int nodes = place.nodes();
  const int network_hops = nodes > 1 ? nodes : 0;
  const double transfer = bytes / bus_bytes_per_second(cluster, collective, place);
  const double lap =
      (place.ranks - 1 - std::min(network_hops, place.ranks - 1)) * cluster.link_latency_seconds +
      std::min(network_hops, place.ranks - 1) * cluster.network_latency_seconds;
  const double ring =
      passes * (lap + transfer * (place.ranks - 1) / static_cast<double>(place.ranks));
  if (!is_all_reduce) return ring;
  const double rounds = (nodes > 1 ? rounds_of_tree(nodes) * cluster.network_latency_seconds : 0) +
                        rounds_of_tree(place.ranks_per_node) * cluster.link_latency_seconds;
  return std::min(ring, passes * (rounds + transfer));
}

double message_seconds(const Cluster& cluster, bool leaves_node, double bytes) {
  if (!leaves_node) {
    const double link = link_bytes_per_second(cluster, 2);
    return cluster.link_latency_seconds + bytes / link;
  }
  const double nic =
      cluster.nics * cluster.nic_bytes_per_second * cluster.nic_efficiency / cluster.node_devices;
  return cluster.network_latency_seconds + bytes / nic;
}

}  // namespace trireme
