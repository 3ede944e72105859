// Seconds of what a device computes: matrix products, attention, element-wise passes.
#pragma once

#include "trireme/cost/cluster.h"
#include "trireme/cost/workload.h"

namespace trireme {

/// Of dense products in that precision; of bf16 where the device has no number of its own.
[[nodiscard]] double peak_flops_per_second(const Device& device, ComputePrecision precision);

/// y[m, n] = x[m, k] * w[k, n] on one device: its FLOPs at the efficiency of the best tile, which
/// loses the idle multiprocessors of the last wave and, for small k, its prologue and epilogue
/// (k / (k + half depth)); or its bytes where they take longer; and the floor of a kernel.
[[nodiscard]] double product_seconds(const Device& device, ComputePrecision precision, double m,
                                     double n, double k);

/// Forward, gradient of the input and gradient of the weight of a product of `tokens` rows with a
/// weight of `outputs` x `inputs`, slower where one of the two is no multiple of 8.
struct ProductSeconds {
  double forward = 0;
  double backward = 0;  ///< both gradients
  double weight = 0;    ///< of `backward`, the gradient of the weight; 0 where there is none
};
[[nodiscard]] ProductSeconds weight_product_seconds(const Device& device,
                                                    ComputePrecision precision, double tokens,
                                                    double outputs, double inputs);

/// Reading and writing `bytes` of the device's memory by element-wise kernels.
[[nodiscard]] double bytes_seconds(const Device& device, double bytes);

/// The parts of causal attention: of `sequences` sequences of `seq` tokens, heads of `head_dim`.
struct AttentionShape {
  double sequences = 0;
  double seq = 0;
  double heads = 0;
  double head_dim = 0;
};
/// Fused attention: causal FLOPs 2 B S^2 H D forward and 2.5 times that backward (Dao 2023,
/// arXiv:2307.08691), at the device's efficiency or at `kernel_flops_per_second` forward, what the
/// framework's kernel reaches, if that is less; 0 = no such limit.
[[nodiscard]] ProductSeconds fused_attention_seconds(const Device& device,
                                                     ComputePrecision precision,
                                                     double kernel_flops_per_second,
                                                     const AttentionShape& shape);
/// Attention whose scores go through memory: two products forward, four backward, and
/// `forward_bytes` and `backward_bytes` for each of the B H S^2 scores.
[[nodiscard]] ProductSeconds plain_attention_seconds(const Device& device,
                                                     ComputePrecision precision,
                                                     const AttentionShape& shape,
                                                     double forward_bytes, double backward_bytes);

}  // namespace trireme
