// A cluster as the cost model sees it: devices, the links of a node, the network between nodes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cost/quantity_file.h"

namespace trireme {

/// One accelerator, or one core of a CPU.
struct Device {
  double peak_flops_per_second = 0;      ///< dense bf16 (or fp16) products
  double peak_fp8_flops_per_second = 0;  ///< dense; 0 = has none
  double peak_fp32_flops_per_second = 0;
  double memory_bytes = 0;  ///< as the driver reports
  double memory_bytes_per_second = 0;
  double memory_efficiency = 0;  ///< of that, reached by plain element-wise kernels
  double multiprocessors = 1;
  /// Output tiles that a multiprocessor computes at a time; a product takes the best one.
  struct Tile {
    double rows = 1;
    double columns = 1;
    double efficiency = 1;  ///< relative to the largest tile
  };
  std::vector<Tile> tiles;
  double product_efficiency = 0;  ///< of the peak, reached by a large product at sustained load
  double product_efficiency_fp8 = 0;
  double misaligned_efficiency = 1;         ///< factor where a size is no multiple of 8
  double product_half_depth = 0;            ///< inner dimension at which half of that is left
  double attention_forward_efficiency = 0;  ///< of the peak, causal FLOPs of fused attention
  double attention_backward_efficiency = 0;
  double kernel_seconds = 0;  ///< floor of one kernel on the device
};

/// Bus bandwidth of a collective over all ranks of a number of nodes, as measured.
struct BandwidthByNodes {
  std::vector<double> nodes;  ///< ascending
  std::vector<double> bytes_per_second;
  [[nodiscard]] bool empty() const { return nodes.empty(); }
  /// Interpolated in the logarithm of the nodes; beyond the last one the slope goes on.
  [[nodiscard]] double at(double num_nodes) const;
};

struct Cluster {
  std::string name;
  std::string device_name;             ///< "H100 SXM"
  std::vector<std::string> gpu_types;  ///< other names of the device, in lower case
  bool is_cpu = false;                 ///< devices are cores that thread ranks share
  Device device;

  int node_devices = 1;
  double link_bytes_per_second = 0;  ///< of a device to its node, one direction
  double link_efficiency = 0;        ///< of that, reached by a ring of large messages
  double link_latency_seconds = 0;   ///< of one hop
  double pair_bytes_per_second = 0;  ///< of the link between two devices; 0 = a switch joins all
  double switch_gain = 1;            ///< all-reduce in the switch (NVLink SHARP) against a ring
  int switch_min_ranks = 0;          ///< least ranks for which it is used; 0 = never

  double nics = 1;
  double nic_bytes_per_second = 0;  ///< one direction
  double nic_efficiency = 0;
  double network_latency_seconds = 0;  ///< of one hop

  double straggler = 0;  ///< share by which the slowest device is slower than the others
  double overlap_compute_slowdown = 0;        ///< share by which collectives slow computation
  double overlap_communication_slowdown = 0;  ///< and computation slows collectives

  BandwidthByNodes all_reduce;  ///< measured; empty = from links and NICs
  BandwidthByNodes all_gather;
  BandwidthByNodes reduce_scatter;

  QuantityFile file;  ///< every number with its source; also the tables of `trireme calibrate`
};

/// What a cluster file may say.
[[nodiscard]] const QuantityRules& cluster_rules();

/// InternalError unless `file` has been parsed with cluster_rules().
[[nodiscard]] Cluster cluster_of(QuantityFile file);

/// A cluster by the path of its file or by the name of a built-in one. Throws as
/// parse_quantity_file and quantity_file_source do.
[[nodiscard]] Cluster read_cluster(const std::string& name_or_path);

}  // namespace trireme
