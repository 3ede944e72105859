// What was verified of a step, and how it is said. Private to the layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/simulate/step_simulation.h"

namespace trireme {

struct Verification {
  std::size_t num_ranks = 0;
  std::size_t world = 0;  ///< ranks in all
  std::int64_t num_instructions = 0;

  /// Ranks that are missing can owe the others something.
  [[nodiscard]] bool is_whole() const { return num_ranks == world; }
};

/// Of programs that verify.
[[nodiscard]] Verification verification_of(const std::vector<Program>& programs);

/// Builds the programs of all ranks of the simulated world and verifies them and their placements,
/// where the world is small; else verifies those that were simulated. Throws InternalError if a
/// rule is broken.
[[nodiscard]] Verification verify_step(const StepSimulation& simulation);

/// Names of the verifier's rules: all, or those that do or do not need all ranks.
[[nodiscard]] std::vector<std::string_view> rule_names(
    std::optional<bool> is_among_ranks = std::nullopt);

/// One line: "verified: V1 ... V18 (1,234 instructions on 8 ranks)", or what needs the other ranks.
[[nodiscard]] std::string verification_text(const Verification& verification);

}  // namespace trireme
