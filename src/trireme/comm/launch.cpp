#include "trireme/comm/launch.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/numbers.h"

namespace trireme {
namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  return is_number(text, number) ? std::optional(number) : std::nullopt;
}

struct Range {
  int least = 0;
  int end = 0;  ///< first number that is too large
};

int read_number(const EnvironmentReader& environment, const char* name, Range range) {
  const char* const text = environment(name);
  const std::optional<int> number = text == nullptr ? std::nullopt : number_in(text);
  if (number && *number >= range.least && *number < range.end) return *number;
  throw UsageError(
      fmt::format("[launch] {} = {}: must be a number from {} to {}, as the launcher sets it; "
                  "start the program "
                  "by mpirun or srun, or unset it",
                  name, text == nullptr ? "(not set)" : fmt::format("\"{}\"", text), range.least,
                  range.end - 1));
}

constexpr int kMaxProcesses = 1 << 20;

/// Entry `node` of "4(x2),3": 4, 4, 3.
std::optional<int> tasks_of_node(std::string_view list, int node) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    int repetitions = 1;
    if (const std::size_t open = entry.find("(x"); open != entry.npos && entry.ends_with(')')) {
      const auto number = number_in(entry.substr(open + 2, entry.size() - open - 3));
      if (!number || *number < 1) return std::nullopt;
      repetitions = *number;
      entry = entry.substr(0, open);
    }
    const auto tasks = number_in(entry);
    if (!tasks) return std::nullopt;
    if (node < repetitions) return tasks;
    node -= repetitions;
  }
  return std::nullopt;
}

Launch read_open_mpi(const EnvironmentReader& environment) {
  Launch launch{.launcher = "mpirun"};
  launch.size = read_number(environment, "OMPI_COMM_WORLD_SIZE", {1, kMaxProcesses});
  launch.rank = read_number(environment, "OMPI_COMM_WORLD_RANK", {0, launch.size});
  launch.local_size = read_number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", {1, launch.size + 1});
  launch.local_rank =
      read_number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", {0, launch.local_size});
  return launch;
}

Launch read_slurm(const EnvironmentReader& environment) {
  Launch launch{.launcher = "srun"};
  launch.size = read_number(environment, "SLURM_STEP_NUM_TASKS", {1, kMaxProcesses});
  launch.rank = read_number(environment, "SLURM_PROCID", {0, launch.size});
  const int node = read_number(environment, "SLURM_NODEID", {0, kMaxProcesses});
  const char* const list = environment("SLURM_STEP_TASKS_PER_NODE");
  const auto tasks = tasks_of_node(list == nullptr ? "" : list, node);
  if (!tasks || *tasks < 1 || *tasks > launch.size) {
    throw UsageError(fmt::format(
        "[launch] SLURM_STEP_TASKS_PER_NODE = \"{}\" has no number of tasks for SLURM_NODEID = {}; "
        "start the program by srun, or unset SLURM_STEP_NUM_TASKS",
        list == nullptr ? "" : list, node));
  }
  launch.local_size = *tasks;
  launch.local_rank = read_number(environment, "SLURM_LOCALID", {0, launch.local_size});
  return launch;
}

}  // namespace

Launch read_launch(const EnvironmentReader& environment) {
  if (environment("OMPI_COMM_WORLD_SIZE") != nullptr) return read_open_mpi(environment);
  if (environment("SLURM_STEP_NUM_TASKS") != nullptr) return read_slurm(environment);
  return {};
}

Transport chosen_transport(Transport wanted, const Launch& launch, int world) {
  if (!launch.has_many()) {
    if (wanted != Transport::kMpi || world == 1) return Transport::kThreads;
    throw UsageError(fmt::format(
        "[layout] transport = \"mpi\" with pp * dp * cp * tp = {0}, but this is one process: each "
        "rank must be one; start {0} by mpirun -n {0}, or use transport = \"threads\"",
        world));
  }
  if (wanted == Transport::kThreads) {
    throw UsageError(fmt::format(
        "[layout] transport = \"threads\", but {0} has started {1} processes, each of which would "
        "train by itself; start the program without {0}, or use transport = \"mpi\"",
        launch.launcher, launch.size));
  }
  if (launch.size != world) {
    throw UsageError(fmt::format(
        "[layout] pp * dp * cp * tp = {0}, but {1} has started {2} processes: each rank is one "
        "process; start {0}, or change the layout, for example to dp = {2}",
        world, launch.launcher, launch.size));
  }
  return Transport::kMpi;
}

}  // namespace trireme
