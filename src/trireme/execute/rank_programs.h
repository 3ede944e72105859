// The programs of one rank, ready to run: workspace known, verified, placed in one arena.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/program/place.h"
#include "trireme/program/program.h"

namespace trireme {

/// Programs that share one rank's arena, such as training and evaluation.
struct RankPrograms {
  std::vector<Program> programs;
  Placement placement = {};

  /// In the order of the placement.
  [[nodiscard]] std::vector<const Program*> pointers() const;
  [[nodiscard]] std::int64_t num_instructions() const;
};

/// Takes the programs of all ranks, by rank; every rank has the same kinds in the same order. Gives
/// them the workspace that the CPU kernels need with `num_threads` threads a rank, places and
/// verifies them. Throws InternalError if a rule of the verifier is broken.
[[nodiscard]] std::vector<RankPrograms> make_ready(std::vector<std::vector<Program>> programs,
                                                   int num_threads);

/// Sum of all ranks' arenas.
[[nodiscard]] std::int64_t total_arena_bytes(const std::vector<RankPrograms>& ranks);

}  // namespace trireme
