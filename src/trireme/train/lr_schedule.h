// The learning rate of each step.
#pragma once

#include <cstdint>

namespace trireme {

enum class LrShape : std::uint8_t { kConstant, kCosine, kLinear, kWsd };

/// The learning rate is a pure function of the step, so that a resumed run continues it exactly.
/// Steps are 1-based; N = total_steps, W = max(warmup_steps, 1), peak = lr.
///
/// - Warm-up: step s <= W uses peak * s / W. The first update uses peak / W, never 0; step W uses
///   the peak. `min_lr` does not bound the warm-up.
/// - constant: the peak from step W on.
/// - cosine: from the peak at step W down half a cosine to min_lr at step W + D, then min_lr.
///   D = decay_steps, or N - W if decay_steps is 0.
/// - linear: the same along a straight line.
/// - wsd (warm-up, stable, decay): the peak until step N - D, then a straight line down to min_lr
///   at step N, with D = decay_steps (Hu et al. 2024, arXiv:2404.06395, section 4.2).
///
/// The last step of the decay uses min_lr exactly and no step after the warm-up is below it.
struct LrSchedule {
  LrShape shape = LrShape::kConstant;
  double lr = 0.0;
  double min_lr = 0.0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  std::int64_t total_steps = 0;

  bool operator==(const LrSchedule&) const = default;
};

/// Learning rate of the update at `step` >= 1.
[[nodiscard]] double learning_rate(const LrSchedule& schedule, std::int64_t step);

}  // namespace trireme
