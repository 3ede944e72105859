#include "trireme/plan/goodput.h"

#include <cmath>

namespace trireme {

double young_interval_seconds(const FailureModel& failures) {
  return std::sqrt(2 * failures.checkpoint_seconds * failures.mtbf_seconds);
}

double daly_interval_seconds(const FailureModel& failures) {
  const double ratio = failures.checkpoint_seconds / (2 * failures.mtbf_seconds);
  if (ratio >= 1) return failures.mtbf_seconds;
  return young_interval_seconds(failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         failures.checkpoint_seconds;
}

double goodput_share(const FailureModel& failures, double interval_seconds) {
  const double mtbf = failures.mtbf_seconds;
  const double period = (interval_seconds + failures.checkpoint_seconds) / mtbf;
  return interval_seconds / (mtbf * std::exp(failures.restart_seconds / mtbf) * std::expm1(period));
}

}  // namespace trireme
