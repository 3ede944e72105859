#include "trireme/cost/kernels.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kAlignedElems = 8;  // 16 bytes of 16-bit values

bool is_aligned(double size) {
  return std::fmod(size, kAlignedElems) == 0;
}

/// The best tile's efficiency times the share of multiprocessors that its waves keep busy.
double tile_efficiency(const Device& device, double m, double n) {
  double best = 0;
  for (const Device::Tile& tile : device.tiles) {
    const double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double waves = std::ceil(tiles / device.multiprocessors);
    const double busy = m * n / (tile.rows * tile.columns) / (waves * device.multiprocessors);
    best = std::max(best, tile.efficiency * busy);
  }
  return best;
}

}  // namespace

double peak_flops_per_second(const Device& device, ComputePrecision precision) {
  const double special = precision == ComputePrecision::kFp8    ? device.peak_fp8_flops_per_second
                         : precision == ComputePrecision::kFp32 ? device.peak_fp32_flops_per_second
                                                                : 0;
  return special > 0 ? special : device.peak_flops_per_second;
}

double product_seconds(const Device& device, ComputePrecision precision, double m, double n,
                       double k) {
  const bool is_fp8 = precision == ComputePrecision::kFp8 && device.peak_fp8_flops_per_second > 0;
  const double peak = peak_flops_per_second(device, precision);
  double efficiency = (is_fp8 ? device.product_efficiency_fp8 : device.product_efficiency) *
                      tile_efficiency(device, m, n) * k / (k + device.product_half_depth);
  const double in_bytes = is_fp8 ? 1 : 2;
  return std::max(2 * m * n * k / (peak * efficiency),
                  bytes_seconds(device, in_bytes * (m * k + k * n) + 2 * m * n)) +
         device.kernel_seconds;
}

ProductSeconds weight_product_seconds(const Device& device, ComputePrecision precision,
                                      double tokens, double outputs, double inputs) {
  // Rows of the weight and of its gradient; tokens are no row's length.
  const double slower =
      is_aligned(outputs) && is_aligned(inputs) ? 1 : 1 / device.misaligned_efficiency;
  const double forward = product_seconds(device, precision, tokens, outputs, inputs);
  const double input = product_seconds(device, precision, tokens, inputs, outputs);
  const double weight = product_seconds(device, precision, outputs, inputs, tokens);
  return {.forward = slower * forward,
          .backward = slower * (input + weight),
          .weight = slower * weight};
}

double bytes_seconds(const Device& device, double bytes) {
  return bytes / (device.memory_bytes_per_second * device.memory_efficiency);
}

ProductSeconds fused_attention_seconds(const Device& device, ComputePrecision precision,
                                       double kernel_flops_per_second,
                                       const AttentionShape& shape) {
  constexpr double kBackwardFlops = 2.5;
  const double flops = 2 * shape.sequences * shape.seq * shape.seq * shape.heads * shape.head_dim;
  const ComputePrecision wide =
      precision == ComputePrecision::kFp8 ? ComputePrecision::kBf16 : precision;
  const double of_device =
      peak_flops_per_second(device, wide) * device.attention_forward_efficiency;
  const double forward =
      kernel_flops_per_second > 0 ? std::min(of_device, kernel_flops_per_second) : of_device;
  const double backward =
      forward * device.attention_backward_efficiency / device.attention_forward_efficiency;
  return {.forward = flops / forward + device.kernel_seconds,
          .backward = kBackwardFlops * flops / backward + 2 * device.kernel_seconds};
}

ProductSeconds plain_attention_seconds(const Device& device, ComputePrecision precision,
                                       const AttentionShape& shape, double forward_bytes,
                                       double backward_bytes) {
  const ComputePrecision wide =
      precision == ComputePrecision::kFp8 ? ComputePrecision::kBf16 : precision;
  const double rows = shape.sequences * shape.heads * shape.seq;
  const double products = product_seconds(device, wide, rows, shape.seq, shape.head_dim) +
                          product_seconds(device, wide, rows, shape.head_dim, shape.seq);
  const double scores = rows * shape.seq;
  return {.forward = products + bytes_seconds(device, forward_bytes * scores),
          .backward = 2 * products + bytes_seconds(device, backward_bytes * scores)};
}

}  // namespace trireme
