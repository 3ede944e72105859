// The cluster file of a machine from what was measured on it.
#pragma once

#include <map>

#include "trireme/calibrate/machine.h"
#include "trireme/calibrate/probe_run.h"
#include "trireme/calibrate/transfer_times.h"
#include "trireme/cost/quantity_file.h"

namespace trireme {

/// Medians of all rounds.
struct Measurements {
  std::map<KernelCase, double> kernels = {};
  std::map<TransferCall, double> transfers = {};
  double instruction_seconds = 0;
  double step_seconds = 0;
  double wake_seconds = 0;
  double copy_bytes_per_second = 0;  ///< of a core, all at once
};

/// Every number of kind "measured" unless it is the machine's own; complete by cluster_rules().
[[nodiscard]] QuantityFile measured_file(const Machine& machine, const Measurements& measurements);

}  // namespace trireme
