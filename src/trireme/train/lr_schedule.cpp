#include "trireme/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

/// The steps (first, last] over which the rate falls from the peak to min_lr.
struct Decay {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

Decay decay_of(const LrSchedule& schedule, std::int64_t peak_step) {
  if (schedule.shape == LrShape::kWsd) {
    return {schedule.total_steps - schedule.decay_steps, schedule.total_steps};
  }
  const bool until_end = schedule.decay_steps == 0;
  return {peak_step, until_end ? schedule.total_steps : peak_step + schedule.decay_steps};
}

}  // namespace

double learning_rate(const LrSchedule& schedule, std::int64_t step) {
  TRI_CHECK(step >= 1);
  const std::int64_t peak_step = std::max<std::int64_t>(schedule.warmup_steps, 1);
  if (step < peak_step) {
    return schedule.lr * static_cast<double>(step) / static_cast<double>(peak_step);
  }
  const Decay decay = decay_of(schedule, peak_step);
  if (step == peak_step || schedule.shape == LrShape::kConstant || step <= decay.first) {
    return schedule.lr;
  }
  if (step >= decay.last) {
    return schedule.min_lr;
  }
  const double progress =
      static_cast<double>(step - decay.first) / static_cast<double>(decay.last - decay.first);
  const double share_left = schedule.shape == LrShape::kCosine
                                ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                                : 1.0 - progress;
  return schedule.min_lr + (schedule.lr - schedule.min_lr) * share_left;
}

}  // namespace trireme
