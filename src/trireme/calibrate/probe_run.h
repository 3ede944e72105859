// Runs a probe and says how long each of its instructions took.
#pragma once

#include <map>
#include <vector>

#include "trireme/calibrate/probe.h"
#include "trireme/simulate/kernel_call.h"

namespace trireme {

/// What one row of a kernel's table is about.
struct KernelCase {
  KernelCall call;
  int bits = 32;
  int threads = 1;
  int ranks = 1;
  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 that the language itself compares with
  auto operator<=>(const KernelCase&) const = default;
};

/// Seconds, one for each time that it was measured.
struct ProbeTimes {
  std::map<KernelCase, std::vector<double>> kernels;
  std::vector<double> instruction;  ///< between two instructions of a rank that never waits
  std::vector<double> step;         ///< of a step outside of its instructions
};

/// Runs two steps of the probe on thread ranks and adds the times of the second to `times`.
/// `resets_affinity`: see run_on_any_core.
void run_probe(const Probe& probe, bool resets_affinity, ProbeTimes& times);

}  // namespace trireme
