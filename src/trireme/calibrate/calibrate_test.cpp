#include "trireme/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include "trireme/cost/cluster.h"
#include "trireme/simulate/machine_prices.h"

namespace trireme {
namespace {

/// One tiny step: a test of the way, not of the machine.
Probe tiny_probe(DType compute) {
  return {.name = "tiny",
          .request =
              {.spec = resolved(
                   {.layers = 1, .hidden = 16, .heads = 2, .ffn = 16, .vocab = 32, .max_seq = 8}),
               .layout = {.dp = 2},
               .batch = {.seq = 8, .micro_batch = 1, .global_batch = 2},
               .compute = compute},
          .num_busy = 2};
}

CalibrationOptions tiny_options() {
  return {.probes = {tiny_probe(DType::kF32), tiny_probe(DType::kBf16)},
          .transfer_bytes = {256, 1024},
          .seconds = 0};
}

constexpr double kMemoryBytes = 1 << 30;

TEST(Calibrate, MakesACompleteClusterFile) {
  const auto measurements = calibrate(tiny_options());
  ASSERT_TRUE(measurements.has_value());
  const QuantityFile file = measured_file(
      {.cpu = "Test \"CPU\"", .num_cores = 2, .memory_bytes = kMemoryBytes}, *measurements);
  QuantityFile read =
      parse_quantity_file(quantity_file_text(file, cluster_rules()), "x.toml", cluster_rules());
  read.name = file.name;
  EXPECT_EQ(read, file);
  const Cluster cluster = cluster_of(file);
  EXPECT_TRUE(cluster.is_cpu);
  EXPECT_EQ(cluster.node_devices, 2);
  EXPECT_GT(cluster.link_bytes_per_second, 0);
}

TEST(Calibrate, PricesWhatItHasMeasured) {
  const auto measurements = calibrate(tiny_options());
  ASSERT_TRUE(measurements.has_value());
  const MachinePrices prices(cluster_of(
      measured_file({.cpu = "CPU", .num_cores = 2, .memory_bytes = kMemoryBytes}, *measurements)));
  const KernelCall product{.kernel = Kernel::kProductForward, .sizes = {8, 16, 16}};
  const double measured =
      measurements->kernels.at({.call = product, .bits = 32, .threads = 1, .ranks = 2});
  EXPECT_NEAR(prices.kernel_seconds(product, 32, 1).busy, measured, 1e-3 * measured);
}

TEST(Calibrate, StopsBetweenMeasurements) {
  std::atomic<int> signal{0};
  CalibrationOptions options = tiny_options();
  options.stop_signal = &signal;
  int num_begun = 0;
  options.progress = [&](const std::string&, int, int, int) {
    ++num_begun;
    signal.store(2);
  };
  EXPECT_FALSE(calibrate(options).has_value());
  EXPECT_EQ(num_begun, 1);
}

}  // namespace
}  // namespace trireme
