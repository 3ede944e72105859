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

  [[nodiscard]] const Program& program(int rank, int kind) const {
    return ranks.at(static_cast<std::size_t>(rank)).programs.at(static_cast<std::size_t>(kind));
  }
  [[nodiscard]] bool evaluates() const { return ranks.front().programs.size() > kEval; }
  /// Bytes of the fullest rank's arena.
  [[nodiscard]] std::int64_t memory_bytes() const;
};

/// Builds, verifies and places the programs of all ranks of a checked config. `eval_windows` > 0
/// adds an evaluation of that many sequences. Throws UsageError for more threads a rank than cores.
[[nodiscard]] RunPlan make_run_plan(const TrainConfig& config, std::int64_t eval_windows);

/// Threads of a rank: as configured, else cores / ranks, at least 1.
[[nodiscard]] int threads_per_rank(const TrainConfig& config, int num_cores);

}  // namespace trireme
