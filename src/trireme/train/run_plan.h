// What every rank will run, decided and verified before any memory is touched.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/execute/rank_programs.h"
#include "trireme/train/config.h"

namespace trireme {

/// The programs of every rank of a run: training, then evaluation if the run evaluates.
struct RunPlan {
  static constexpr int kTrain = 0;
  static constexpr int kEval = 1;

  std::vector<RankPrograms> ranks;
  int threads_per_rank = 1;
  int ranks_of_machine = 1;  ///< that share this machine; all of them unless ranks are processes

  [[nodiscard]] const Program& program(int rank, int kind) const {
    return ranks.at(static_cast<std::size_t>(rank)).programs.at(static_cast<std::size_t>(kind));
  }
  [[nodiscard]] bool evaluates() const { return ranks.front().programs.size() > kEval; }
  /// Bytes of the fullest rank's arena.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Bytes of the arenas on this machine: where it has not all ranks, as if each were the fullest.
  [[nodiscard]] std::int64_t bytes_of_machine() const;
};

/// Builds, verifies and places the programs of all ranks of a checked config. `eval_windows` > 0
/// adds an evaluation of that many sequences. `ranks_of_machine` share its cores: 0 = all ranks.
/// Throws UsageError for more threads a rank than cores.
[[nodiscard]] RunPlan make_run_plan(const TrainConfig& config, std::int64_t eval_windows,
                                    int ranks_of_machine = 0);

/// Threads of a rank: as configured, else cores / ranks that share them, at least 1.
[[nodiscard]] int threads_per_rank(const RanksConfig& config, int num_cores, int num_ranks);

}  // namespace trireme
