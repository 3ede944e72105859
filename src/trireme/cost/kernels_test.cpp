#include "trireme/cost/kernels.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// One FLOP/s and byte/s of everything, no losses but those that a test sets.
Device plain_device() {
  return {.peak_flops_per_second = 1,
          .memory_bytes_per_second = 1e30,
          .memory_efficiency = 1,
          .multiprocessors = 4,
          .tiles = {{.rows = 128, .columns = 256, .efficiency = 1}},
          .product_efficiency = 1,
          .attention_forward_efficiency = 0.5,
          .attention_backward_efficiency = 0.4};
}

TEST(ProductSeconds, WholeWavesReachThePeak) {
  EXPECT_DOUBLE_EQ(product_seconds(plain_device(), ComputePrecision::kBf16, 256, 512, 64),
                   2.0 * 256 * 512 * 64);
}

TEST(ProductSeconds, OneTileMoreTakesAnotherWave) {
  const double four = product_seconds(plain_device(), ComputePrecision::kBf16, 256, 512, 64);
  EXPECT_DOUBLE_EQ(product_seconds(plain_device(), ComputePrecision::kBf16, 128, 5 * 256, 64),
                   2 * four);
}

TEST(ProductSeconds, TheBestTileIsTaken) {
  Device device = plain_device();
  device.tiles.push_back({.rows = 64, .columns = 64, .efficiency = 0.5});
  EXPECT_DOUBLE_EQ(product_seconds(device, ComputePrecision::kBf16, 64, 256, 64),
                   2.0 * 64 * 256 * 64 / 0.5);
}

TEST(ProductSeconds, HalfDepthHalvesTheEfficiency) {
  Device device = plain_device();
  device.product_half_depth = 64;
  EXPECT_DOUBLE_EQ(product_seconds(device, ComputePrecision::kBf16, 256, 512, 64),
                   2 * 2.0 * 256 * 512 * 64);
}

TEST(ProductSeconds, AThinProductIsBoundByItsBytes) {
  Device device = plain_device();
  device.peak_flops_per_second = 1e30;
  device.memory_bytes_per_second = 2;
  device.memory_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(product_seconds(device, ComputePrecision::kBf16, 8, 16, 32),
                   2.0 * (8 * 32 + 32 * 16 + 8 * 16));
}

TEST(WeightProductSeconds, RowsThatAreNoMultiplesOfEightAreSlower) {
  Device device = plain_device();
  device.misaligned_efficiency = 0.25;
  const auto seconds = [&](double tokens, double outputs) {
    return weight_product_seconds(device, ComputePrecision::kBf16, tokens, outputs, 512).forward;
  };
  EXPECT_DOUBLE_EQ(seconds(256, 511), 4 * seconds(256, 512) * 511 / 512 * 512 / 511);
  EXPECT_LT(seconds(255, 512), 1.01 * seconds(256, 512));
}

TEST(FusedAttention, Fp32HasItsOwnPeak) {
  Device device = plain_device();
  device.peak_fp32_flops_per_second = 0.25;
  const AttentionShape shape{.sequences = 2, .seq = 8, .heads = 3, .head_dim = 4};
  EXPECT_DOUBLE_EQ(fused_attention_seconds(device, ComputePrecision::kFp32, 0, shape).forward,
                   4 * fused_attention_seconds(device, ComputePrecision::kBf16, 0, shape).forward);
}

TEST(ProductSeconds, Fp8HasItsOwnPeak) {
  Device device = plain_device();
  device.peak_fp8_flops_per_second = 2;
  device.product_efficiency_fp8 = 0.8;
  EXPECT_DOUBLE_EQ(product_seconds(device, ComputePrecision::kFp8, 256, 512, 64),
                   2.0 * 256 * 512 * 64 / 1.6);
}

TEST(FusedAttention, CausalFlopsAndTwoAndAHalfTimesThemBackward) {
  const AttentionShape shape{.sequences = 2, .seq = 8, .heads = 3, .head_dim = 4};
  const ProductSeconds seconds =
      fused_attention_seconds(plain_device(), ComputePrecision::kBf16, 0, shape);
  const double flops = 2.0 * 2 * 8 * 8 * 3 * 4;
  EXPECT_DOUBLE_EQ(seconds.forward, flops / 0.5);
  EXPECT_DOUBLE_EQ(seconds.backward, 2.5 * flops / 0.4);
}

TEST(FusedAttention, AKernelMayBeSlowerThanTheDevice) {
  const AttentionShape shape{.sequences = 2, .seq = 8, .heads = 3, .head_dim = 4};
  const ProductSeconds of_device =
      fused_attention_seconds(plain_device(), ComputePrecision::kBf16, 0, shape);
  const ProductSeconds of_kernel =
      fused_attention_seconds(plain_device(), ComputePrecision::kBf16, 0.25, shape);
  EXPECT_DOUBLE_EQ(of_kernel.forward, 2 * of_device.forward);
  EXPECT_DOUBLE_EQ(of_kernel.backward, 2 * of_device.backward);
}

}  // namespace
}  // namespace trireme
