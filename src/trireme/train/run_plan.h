// What every rank will run, decided and verified before any memory is touched.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/program/place.h"
#include "trireme/program/program.h"
#include "trireme/train/config.h"

namespace trireme {

/// Programs of one rank and their places in its arena.
struct RankPlan {
  Program train;
  std::optional<Program> eval = {};
  Placement placement = {};

  /// In the order of the placement: training, then evaluation.
  [[nodiscard]] std::vector<const Program*> programs() const;
};

struct RunPlan {
  std::vector<RankPlan> ranks;
  int threads_per_rank = 1;

  /// Bytes of the fullest rank's arena.
  [[nodiscard]] std::int64_t memory_bytes() const;
};

/// Builds, verifies and places the programs of all ranks of a checked config. `eval_windows` > 0
/// adds an evaluation of that many sequences. Throws UsageError if a rule of the verifier is
/// broken.
[[nodiscard]] RunPlan make_run_plan(const TrainConfig& config, std::int64_t eval_windows);

/// Threads of a rank: as configured, else cores / ranks, at least 1.
[[nodiscard]] int threads_per_rank(const TrainConfig& config, int num_cores);

}  // namespace trireme
