// The training steps that calibration runs and times.
#pragma once

#include <string>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// One step of a small model. Its instructions are what real steps are made of: they run in the
/// executor, on operands that the instruction before them has left in the caches, with more model
/// state than the caches hold.
struct Probe {
  std::string name;
  BuildRequest request;  ///< rank ignored
  int num_threads = 1;   ///< of a rank
  int num_busy = 1;      ///< ranks that compute at once: the column "ranks" of the tables
};

/// Those of a machine with `num_cores`: dense models with one thread alone, one thread on each core
/// and one rank with all cores, then every kind of parallelism between two ranks; in fp32 and bf16.
[[nodiscard]] std::vector<Probe> standard_probes(int num_cores);

/// The programs of all ranks.
[[nodiscard]] std::vector<Program> probe_programs(const Probe& probe);

}  // namespace trireme
