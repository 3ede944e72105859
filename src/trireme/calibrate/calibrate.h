// Measures this machine: rounds over all probes and transfers, until the time is up.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/calibrate/measured_file.h"
#include "trireme/calibrate/probe.h"

namespace trireme {

struct CalibrationOptions {
  std::vector<Probe> probes;  ///< standard_probes(cores)
  std::vector<double> transfer_bytes = {256, 16384, 262144, 4194304};
  double seconds = 60;  ///< no round begins that would probably end later; one always runs
  bool resets_affinity = false;
  const std::atomic<int>* stop_signal = nullptr;  ///< not 0: stop after the probe that runs
  /// Told before each measurement: what it is, and which of how many in which round.
  std::function<void(const std::string& what, int number, int count, int round)> progress = {};
};

/// Nothing if it was stopped. Rounds have the same measurements in the same order.
[[nodiscard]] std::optional<Measurements> calibrate(const CalibrationOptions& options);

}  // namespace trireme
