// Test only: a machine of two cores with few measurements.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/cost/calibration.h"
#include "trireme/cost/cluster.h"

namespace trireme {

/// Rows as in the kernels' tables.
[[nodiscard]] inline Cluster machine(
    const std::map<Kernel, std::vector<std::vector<double>>>& kernels) {
  Cluster cluster;
  cluster.is_cpu = true;
  cluster.node_devices = 2;
  cluster.file.name = "two-cores";
  cluster.file.quantities.emplace(kCoresKey, Quantity{.value = 2});
  for (const auto& [kernel, rows] : kernels)
    cluster.file.tables[std::string(kernel_table(kernel).key)] = {.rows = rows};
  return cluster;
}

/// Every kernel and every transfer takes `seconds`, whatever its size.
[[nodiscard]] inline Cluster even_machine(double seconds) {
  std::map<Kernel, std::vector<std::vector<double>>> kernels;
  for (int k = 0; k < kNumKernels; ++k) {
    const auto kernel = static_cast<Kernel>(k);
    const auto num_sizes = static_cast<std::size_t>(kernel_table(kernel).num_sizes);
    for (const double size : {1.0, 1e9}) {
      std::vector<double> row = {32, 1, 2};
      row.insert(row.end(), num_sizes, num_sizes == 1 ? size : 1.0);
      row.push_back(seconds);
      kernels[kernel].push_back(row);
    }
  }
  Cluster cluster = machine(kernels);
  for (int t = 0; t < kNumTransfers; ++t) {
    cluster.file.tables[std::string(transfers_key(static_cast<Transfers>(t)))] = {
        .rows = {{2, 1, seconds}, {2, 1e9, seconds}}};
  }
  return cluster;
}

}  // namespace trireme
