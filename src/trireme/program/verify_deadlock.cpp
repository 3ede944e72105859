// V8: messages and collectives can all meet.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include <fmt/format.h>

#include "trireme/program/step_system.h"
#include "trireme/program/text.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// Collectives of one communicator, which V6 puts in one order, cannot block each other.
bool can_deadlock(const Program& program) {
  std::set<std::string_view> groups;
  for (const Template& item : program.templates) {
    for (const Instruction& instruction : item.instructions) {
      if (!instruction.comm) continue;
      groups.insert(instruction.comm->group);
      if (instruction.comm->peer >= 0 || groups.size() > 1) return true;
    }
  }
  return false;
}

std::string_view mode_name(DeadlockMode mode) {
  switch (mode) {
    case DeadlockMode::kPerStream:
      return "each stream in its order";
    case DeadlockMode::kDeviceSerial:
      return "all communication of a rank in one order";
    case DeadlockMode::kBlocking:
      return "one instruction of a rank after the other";
  }
  return "";
}

}  // namespace

std::optional<Violation> check_deadlock(const std::vector<Program>& programs, DeadlockMode mode) {
  const bool has_all_ranks = !programs.empty() && static_cast<int>(programs.size()) ==
                                                      programs.front().request.layout.world();
  if (!has_all_ranks || std::none_of(programs.begin(), programs.end(), can_deadlock))
    return std::nullopt;
  const StepSystem step(programs, mode);
  const RendezvousResult result = run_rendezvous(step.system());
  if (result.stuck.empty()) return std::nullopt;
  std::string stuck;
  for (const StuckOp& op : result.stuck) {
    const auto index = static_cast<std::size_t>(op.rank);
    const Program& program = programs[index];
    const auto [call_index, instruction_index] = step.at(index, op.op);
    const Call& call = program.calls[static_cast<std::size_t>(call_index)];
    const Instruction& instruction =
        program.at(call.template_index).instructions[static_cast<std::size_t>(instruction_index)];
    stuck += fmt::format(
        "{}rank {} at '{}'{}", stuck.empty() ? "" : ", ", program.request.rank,
        instruction_text(program, instruction),
        call.micro_batch < 0 ? std::string() : fmt::format(" of micro-batch {}", call.micro_batch));
  }
  const auto first = static_cast<std::size_t>(result.stuck.front().rank);
  const auto [call, instruction] = step.at(first, result.stuck.front().op);
  return violation(programs[first], "V8", {.call = call, .instruction = instruction},
                   {fmt::format("ranks that wait for each other, {}: {}", mode_name(mode), stuck),
                    "an order in which all messages and collectives meet"});
}

}  // namespace trireme
