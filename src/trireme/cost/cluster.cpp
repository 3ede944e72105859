#include "trireme/cost/cluster.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "trireme/base/errors.h"
#include "trireme/cost/calibration.h"

namespace trireme {
namespace {

BandwidthByNodes bandwidth_by_nodes(const QuantityFile& file, std::string_view key) {
  BandwidthByNodes result;
  const QuantityTable* const table = file.table(key);
  if (table == nullptr) return result;
  for (const std::vector<double>& row : table->rows) {
    if (row[0] < 1 || row[1] <= 0 || (!result.nodes.empty() && row[0] <= result.nodes.back())) {
      throw UsageError("[" + file.name + "] " + std::string(key) +
                       ": nodes must ascend from 1 and bandwidths be positive; sort the rows");
    }
    result.nodes.push_back(row[0]);
    result.bytes_per_second.push_back(row[1]);
  }
  return result;
}

/// One tile of one element, always busy, where a file has no table: a CPU core.
std::vector<Device::Tile> tiles_of(const QuantityFile& file) {
  const QuantityTable* const table = file.table("tiles");
  if (table == nullptr) return {Device::Tile{}};
  std::vector<Device::Tile> tiles;
  for (const std::vector<double>& row : table->rows) {
    if (row[0] < 1 || row[1] < 1 || row[2] <= 0 || row[2] > 1) {
      throw UsageError("[" + file.name +
                       "] tiles: rows and columns must be >= 1, efficiency in (0, 1]");
    }
    tiles.push_back({.rows = row[0], .columns = row[1], .efficiency = row[2]});
  }
  return tiles;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    const std::size_t begin = word.find_first_not_of(' ');
    if (begin != std::string::npos) result.push_back(word.substr(begin));
  }
  return result;
}

QuantityRules published_rules() {
  return {.what = "cluster file",
          .texts = {{.key = "name"},
                    {.key = "device_name"},
                    {.key = "gpu_types", .is_optional = true},
                    {.key = "backend", .words = {"cuda", "rocm", "cpu"}}},
          .quantities =
              {{.key = "device.peak_bf16", .unit = "FLOP/s", .min = 1e6},
               {.key = "device.peak_fp8", .unit = "FLOP/s", .is_optional = true},
               {.key = "device.peak_fp32", .unit = "FLOP/s", .is_optional = true},
               {.key = "device.memory", .unit = "B", .min = 1},
               {.key = "device.memory_bandwidth", .unit = "B/s", .min = 1},
               {.key = "device.memory_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "device.multiprocessors", .unit = "1", .min = 1},
               {.key = "device.product_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "device.product_efficiency_fp8",
                .unit = "1",
                .min = 0.01,
                .max = 1,
                .is_optional = true},
               {.key = "device.misaligned_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "device.product_half_depth", .unit = "1"},
               {.key = "device.attention_forward_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "device.attention_backward_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "device.kernel_floor", .unit = "s", .max = 1},
               {.key = "node.devices", .unit = "1", .min = 1, .max = 4096},
               {.key = "node.link_bandwidth", .unit = "B/s", .min = 1},
               {.key = "node.link_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "node.link_latency", .unit = "s", .max = 1},
               {.key = "node.pair_bandwidth", .unit = "B/s", .min = 1, .is_optional = true},
               {.key = "node.switch_gain", .unit = "1", .min = 1, .max = 4, .is_optional = true},
               {.key = "node.switch_min_ranks", .unit = "1", .max = 4096, .is_optional = true},
               {.key = "node.straggler", .unit = "1", .max = 10, .is_optional = true},
               {.key = "network.nics", .unit = "1", .min = 1, .max = 4096},
               {.key = "network.nic_bandwidth", .unit = "B/s", .min = 1},
               {.key = "network.nic_efficiency", .unit = "1", .min = 0.01, .max = 1},
               {.key = "network.latency", .unit = "s", .max = 1},
               {.key = "overlap.compute_slowdown", .unit = "1", .max = 4},
               {.key = "overlap.communication_slowdown", .unit = "1", .max = 4},
               {.key = kCoresKey, .unit = "1", .min = 1, .max = 65536, .is_optional = true},
               {.key = kInstructionKey, .unit = "s", .max = 1, .is_optional = true},
               {.key = kStepKey, .unit = "s", .max = 1, .is_optional = true},
               {.key = kWakeKey, .unit = "s", .max = 1, .is_optional = true}},
          .tables = {{.key = "tiles", .columns = {"rows", "columns", "efficiency"}},
                     {.key = "all_reduce", .columns = {"nodes", "B/s"}},
                     {.key = "all_gather", .columns = {"nodes", "B/s"}},
                     {.key = "reduce_scatter", .columns = {"nodes", "B/s"}}}};
}

}  // namespace

double BandwidthByNodes::at(double num_nodes) const {
  TRI_CHECK(!empty());
  if (nodes.size() == 1 || num_nodes <= nodes.front()) return bytes_per_second.front();
  std::size_t upper = 1;
  while (upper + 1 < nodes.size() && nodes[upper] < num_nodes) ++upper;
  const double share =
      std::log(num_nodes / nodes[upper - 1]) / std::log(nodes[upper] / nodes[upper - 1]);
  return bytes_per_second[upper - 1] *
         std::pow(bytes_per_second[upper] / bytes_per_second[upper - 1], share);
}

const QuantityRules& cluster_rules() {
  static const QuantityRules rules = [] {
    QuantityRules all = published_rules();
    for (TableRule& table : calibration_tables()) all.tables.push_back(std::move(table));
    return all;
  }();
  return rules;
}

Cluster cluster_of(QuantityFile file) {
  Cluster result;
  result.name = file.text("name");
  result.device_name = file.text("device_name");
  if (file.texts.contains("gpu_types")) result.gpu_types = words(file.text("gpu_types"));
  result.is_cpu = file.text("backend") == "cpu";
  result.device = {
      .peak_flops_per_second = file.value("device.peak_bf16"),
      .peak_fp8_flops_per_second = file.value_or("device.peak_fp8", 0),
      .peak_fp32_flops_per_second = file.value_or("device.peak_fp32", 0),
      .memory_bytes = file.value("device.memory"),
      .memory_bytes_per_second = file.value("device.memory_bandwidth"),
      .memory_efficiency = file.value("device.memory_efficiency"),
      .multiprocessors = file.value("device.multiprocessors"),
      .tiles = tiles_of(file),
      .product_efficiency = file.value("device.product_efficiency"),
      .product_efficiency_fp8 = file.value_or("device.product_efficiency_fp8", 0),
      .misaligned_efficiency = file.value("device.misaligned_efficiency"),
      .product_half_depth = file.value("device.product_half_depth"),
      .attention_forward_efficiency = file.value("device.attention_forward_efficiency"),
      .attention_backward_efficiency = file.value("device.attention_backward_efficiency"),
      .kernel_seconds = file.value("device.kernel_floor")};
  result.node_devices = static_cast<int>(file.value("node.devices"));
  result.link_bytes_per_second = file.value("node.link_bandwidth");
  result.link_efficiency = file.value("node.link_efficiency");
  result.link_latency_seconds = file.value("node.link_latency");
  result.pair_bytes_per_second = file.value_or("node.pair_bandwidth", 0);
  result.switch_gain = file.value_or("node.switch_gain", 1);
  result.switch_min_ranks = static_cast<int>(file.value_or("node.switch_min_ranks", 0));
  result.straggler = file.value_or("node.straggler", 0);
  result.nics = file.value("network.nics");
  result.nic_bytes_per_second = file.value("network.nic_bandwidth");
  result.nic_efficiency = file.value("network.nic_efficiency");
  result.network_latency_seconds = file.value("network.latency");
  result.overlap_compute_slowdown = file.value("overlap.compute_slowdown");
  result.overlap_communication_slowdown = file.value("overlap.communication_slowdown");
  result.all_reduce = bandwidth_by_nodes(file, "all_reduce");
  result.all_gather = bandwidth_by_nodes(file, "all_gather");
  result.reduce_scatter = bandwidth_by_nodes(file, "reduce_scatter");
  result.file = std::move(file);
  return result;
}

Cluster read_cluster(const std::string& name_or_path) {
  return cluster_of(parse_quantity_file(quantity_file_source(name_or_path, "clusters"),
                                        name_or_path, cluster_rules()));
}

}  // namespace trireme
