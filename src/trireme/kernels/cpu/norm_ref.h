// Slow fp64 RMSNorm and LayerNorm. Test only.
#pragma once

#include "trireme/kernels/cpu/norm.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {

struct NormRef {
  Doubles y, mean, rstd;
};

[[nodiscard]] inline NormRef norm_forward_ref(const NormShape& shape, const Doubles& h,
                                              const Doubles& weight, const Doubles& bias) {
  const auto tokens = static_cast<std::size_t>(shape.num_tokens);
  const auto hidden = static_cast<std::size_t>(shape.hidden);
  const bool layer = shape.kind == NormKind::kLayer;
  NormRef ref = {Doubles(h.size()), Doubles(tokens), Doubles(tokens)};
  for (std::size_t n = 0; n < tokens; ++n) {
    const double* row = &h[n * hidden];
    double sum = 0, squares = 0;
    for (std::size_t c = 0; c < hidden; ++c) sum += row[c];
    ref.mean[n] = layer ? sum / static_cast<double>(hidden) : 0;
    for (std::size_t c = 0; c < hidden; ++c) squares += std::pow(row[c] - ref.mean[n], 2);
    ref.rstd[n] =
        1 / std::sqrt(squares / static_cast<double>(hidden) + static_cast<double>(shape.eps));
    for (std::size_t c = 0; c < hidden; ++c) {
      ref.y[n * hidden + c] =
          (row[c] - ref.mean[n]) * ref.rstd[n] * weight[c] + (layer ? bias[c] : 0);
    }
  }
  return ref;
}

struct NormGradRef {
  Doubles dh, dweight, dbias;
};

[[nodiscard]] inline NormGradRef norm_backward_ref(const NormShape& shape, const Doubles& dy,
                                                   const Doubles& h, const Doubles& weight) {
  const auto tokens = static_cast<std::size_t>(shape.num_tokens);
  const auto hidden = static_cast<std::size_t>(shape.hidden);
  const NormRef forward = norm_forward_ref(shape, h, weight, Doubles(hidden));
  NormGradRef ref = {Doubles(h.size()), Doubles(hidden), Doubles(hidden)};
  for (std::size_t n = 0; n < tokens; ++n) {
    double mean_gradient = 0, mean_slope = 0;
    const auto normal = [&](std::size_t c) {
      return (h[n * hidden + c] - forward.mean[n]) * forward.rstd[n];
    };
    for (std::size_t c = 0; c < hidden; ++c) {
      const double gradient = dy[n * hidden + c];
      mean_gradient += gradient * weight[c] / static_cast<double>(hidden);
      mean_slope += gradient * weight[c] * normal(c) / static_cast<double>(hidden);
      ref.dweight[c] += gradient * normal(c);
      ref.dbias[c] += gradient;
    }
    if (shape.kind == NormKind::kRms) mean_gradient = 0;
    for (std::size_t c = 0; c < hidden; ++c) {
      ref.dh[n * hidden + c] = forward.rstd[n] * (dy[n * hidden + c] * weight[c] - mean_gradient -
                                                  normal(c) * mean_slope);
    }
  }
  return ref;
}

}  // namespace trireme::kernels
