// How this process was started, as launchers tell it by environment variables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace trireme {

/// This process among those that were started together.
struct Launch {
  std::string launcher = {};  ///< "mpirun" or "srun"; empty: started by itself
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the processes of this machine
  int local_size = 1;
  bool operator==(const Launch&) const = default;

  [[nodiscard]] bool has_many() const { return size > 1; }
};

/// The value of an environment variable; nullptr if it is not set.
using EnvironmentReader = std::function<const char*(const char* name)>;

/// Reads Open MPI's OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}, else those of a Slurm step:
/// SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, and SLURM_STEP_TASKS_PER_NODE of SLURM_NODEID
/// ("4(x2),3"). SLURM_NTASKS does not count: a batch script has it too, and is no task. UsageError
/// naming the variable whose value is no number in its range.
[[nodiscard]] Launch read_launch(const EnvironmentReader& environment);

enum class Transport : std::uint8_t { kAuto, kThreads, kMpi };

/// kThreads or kMpi for a layout of `world` ranks: kAuto is kMpi where a launcher has started
/// several processes. UsageError unless there are as many processes as the transport needs.
[[nodiscard]] Transport chosen_transport(Transport wanted, const Launch& launch, int world);

}  // namespace trireme
