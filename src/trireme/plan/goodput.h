// How often to save, and which share of the time is left for training.
#pragma once

namespace trireme {

/// A run on machines that fail at random (exponentially distributed).
struct FailureModel {
  double mtbf_seconds = 0;        ///< mean time between failures of the whole run, > 0
  double checkpoint_seconds = 0;  ///< in which training stands still to save, > 0
  double restart_seconds = 0;     ///< from a failure until the checkpoint has been loaded
};

/// sqrt(2 C M): Young 1974, "A first order approximation to the optimum checkpoint interval".
[[nodiscard]] double young_interval_seconds(const FailureModel& failures);

/// Seconds of training between checkpoints to higher order: sqrt(2 C M) (1 + sqrt(C / 2M) / 3 +
/// C / 18 M) - C for C < 2 M, else M. Daly 2006, "A higher order estimate of the optimum checkpoint
/// interval for restart dumps", equation 37.
[[nodiscard]] double daly_interval_seconds(const FailureModel& failures);

/// Share of all time in which steps are made that are never lost, with `interval_seconds` of
/// training between checkpoints: t / (M e^(R/M) (e^((t + C)/M) - 1)), Daly 2006, equation 20.
[[nodiscard]] double goodput_share(const FailureModel& failures, double interval_seconds);

}  // namespace trireme
