// V8: messages and collectives can all meet.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/rendezvous.h"
#include "trireme/program/text.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// One stream may hold up another only through waits; on one queue each holds up all behind it.
int queue_of(Stream stream, DeadlockMode mode) {
  if (mode == DeadlockMode::kBlocking || stream == Stream::kCompute) return 0;
  return mode == DeadlockMode::kDeviceSerial ? 1 : static_cast<int>(stream);
}

/// The programs' steps as one rendezvous system; op i of a rank is the instruction at position i.
class StepSystem {
 public:
  StepSystem(const std::vector<Program>& programs, DeadlockMode mode) : mode_(mode) {
    for (const Program& program : programs) add(program);
  }

  [[nodiscard]] const RendezvousSystem& system() const { return system_; }
  [[nodiscard]] At at(std::size_t program, int position) const {
    return places_[program][static_cast<std::size_t>(position)];
  }

 private:
  /// (communicator, its first rank or the sender, 0 or 1 + the receiver, how many before it)
  using Key = std::tuple<std::string, int, int, int>;

  void add(const Program& program) {
    const std::vector<int> bases = call_bases(program);
    auto& ops = system_.ranks.emplace_back();
    auto& places = places_.emplace_back();
    std::map<Key, int> counts;
    for_each_instruction(program, [&](const Call& call, int c, const Instruction& instruction,
                                      int i) {
      RendezvousOp op{.queue = queue_of(instruction.stream, mode_)};
      for_each_wait(call, instruction, i, [&](const Wait& wait) {
        op.after.push_back(bases[static_cast<std::size_t>(c - wait.calls_back)] + wait.instruction);
      });
      if (instruction.comm && group_ranks(program.request, instruction.comm->group).size() > 1)
        op.meets.push_back(meeting_of(program, instruction, counts));
      ops.push_back(std::move(op));
      places.push_back({.call = c, .instruction = i});
    });
  }

  int meeting_of(const Program& program, const Instruction& instruction,
                 std::map<Key, int>& counts) {
    const Comm& comm = *instruction.comm;
    const std::vector<int> ranks = group_ranks(program.request, comm.group);
    Key key{comm.group, ranks.front(), 0, 0};
    if (comm.peer >= 0) {
      const int self = program.request.rank;
      const int peer = ranks.at(static_cast<std::size_t>(comm.peer));
      const bool is_send = instruction.op == Op::kSend;
      key = {comm.group, is_send ? self : peer, 1 + (is_send ? peer : self), 0};
    }
    std::get<3>(key) = counts[key]++;
    return numbers_.try_emplace(key, narrow<int>(numbers_.size())).first->second;
  }

  DeadlockMode mode_;
  RendezvousSystem system_;
  std::vector<std::vector<At>> places_;  ///< by program and position
  std::map<Key, int> numbers_;
};

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
    const At at = step.at(index, op.op);
    const Call& call = program.calls[static_cast<std::size_t>(at.call)];
    const Instruction& instruction =
        program.at(call.template_index).instructions[static_cast<std::size_t>(at.instruction)];
    stuck += fmt::format("{}rank {} at '{}'", stuck.empty() ? "" : ", ", program.request.rank,
                         instruction_text(program, instruction));
  }
  const StuckOp& first = result.stuck.front();
  return violation(programs[static_cast<std::size_t>(first.rank)], "V8",
                   step.at(static_cast<std::size_t>(first.rank), first.op),
                   {fmt::format("ranks that wait for each other, {}: {}", mode_name(mode), stuck),
                    "an order in which all messages and collectives meet"});
}

}  // namespace trireme
