#include "trireme/cli/verification.h"

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/build.h"
#include "trireme/program/place.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

std::vector<Program> programs_of_world(BuildRequest request) {
  std::vector<Program> programs;
  for (request.rank = 0; request.rank < request.layout.world(); ++request.rank)
    programs.push_back(build_train(request));
  return programs;
}

Verification verify_programs(const std::vector<Program>& programs) {
  require_valid(verify(programs));
  for (const Program& program : programs)
    require_valid(verify_placement({&program}, place({&program})));
  return verification_of(programs);
}

}  // namespace

Verification verification_of(const std::vector<Program>& programs) {
  Verification result{.num_ranks = programs.size(),
                      .world = static_cast<std::size_t>(programs.front().request.layout.world())};
  for (const Program& program : programs) result.num_instructions += program.num_instructions();
  return result;
}

Verification verify_step(const StepSimulation& simulation) {
  constexpr std::size_t kMostRanks = 64;
  constexpr std::int64_t kMostInstructions = 1'000'000;  // of all ranks: some seconds
  const std::vector<Program>& simulated = simulation.programs;
  const Verification some = verification_of(simulated);
  const auto ranks = static_cast<std::int64_t>(some.num_ranks);
  const auto world = static_cast<std::int64_t>(some.world);
  const bool is_small =
      some.world <= kMostRanks && some.num_instructions / ranks * world <= kMostInstructions;
  return some.is_whole() || !is_small
             ? verify_programs(simulated)
             : verify_programs(programs_of_world(simulated.front().request));
}

std::vector<std::string_view> rule_names(std::optional<bool> is_among_ranks) {
  std::vector<std::string_view> names;
  for (const Rule& rule : verified_rules()) {
    if (!is_among_ranks || rule.is_among_ranks == *is_among_ranks) names.push_back(rule.name);
  }
  return names;
}

std::string verification_text(const Verification& verification) {
  const std::string instructions = format_count(verification.num_instructions);
  if (verification.is_whole()) {
    return fmt::format("verified: {} ({} instructions on {} {})\n", fmt::join(rule_names(), " "),
                       instructions, verification.num_ranks,
                       verification.num_ranks == 1 ? "rank" : "ranks");
  }
  return fmt::format(
      "verified: {} ({} instructions on {} of {} ranks, each by itself); {} need all ranks: "
      "trireme train --dry-run\n",
      fmt::join(rule_names(false), " "), instructions, verification.num_ranks, verification.world,
      fmt::join(rule_names(true), " "));
}

}  // namespace trireme
