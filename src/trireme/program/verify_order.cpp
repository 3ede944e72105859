// V5: conflicting accesses on different streams are ordered by waits.
#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// The in-place reductions: the shard is a piece of the data.
bool may_alias(const Instruction& instruction) {
  return instruction.op == Op::kReduceScatter || instruction.op == Op::kAllGather;
}

class RaceCheck {
 public:
  explicit RaceCheck(const StepView& step) : step_(step) {
    Clock never;
    never.fill(-1);
    history_.assign(static_cast<std::size_t>(step.atoms.size()), {never, never});
    touched_.assign(history_.size(), {-1, false});
  }

  std::optional<Violation> run() {
    return step_.find_first([this](At at, const Call&, const Instruction& instruction) {
      auto found = check_waits(at, instruction);
      if (!found) found = check_aliases(at, instruction);
      if (!found) found = check_uses(at, instruction);
      if (!found) found = check_frees(at, instruction);
      return found;
    });
  }

 private:
  struct History {
    Clock written;
    Clock read;
  };
  struct Touch {
    int position;
    bool is_written;
  };

  /// Waits of a template stay within the call.
  std::optional<Violation> check_waits(At at, const Instruction& instruction) const {
    for (const Wait& wait : instruction.waits) {
      if (wait.calls_back != 0 || !is_earlier(at, wait)) return bad_wait(at, wait);
    }
    for (const CallWait& of_call : step_.program.calls[static_cast<std::size_t>(at.call)].waits) {
      if (of_call.instruction == at.instruction && !is_earlier(at, of_call.wait))
        return bad_wait(at, of_call.wait);
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_earlier(At at, const Wait& wait) const {
    if (wait.calls_back < 0 || wait.calls_back > at.call) return false;
    const auto call = static_cast<std::size_t>(at.call - wait.calls_back);
    const Template& target = step_.program.at(step_.program.calls[call].template_index);
    const bool exists =
        wait.instruction >= 0 &&
        static_cast<std::size_t>(wait.instruction) < target.instructions.size() &&
        target.instructions[static_cast<std::size_t>(wait.instruction)].stream == wait.stream;
    return exists && (wait.calls_back > 0 || wait.instruction < at.instruction);
  }

  [[nodiscard]] Violation bad_wait(At at, const Wait& wait) const {
    return violation(step_.program, "V5", at,
                     {fmt::format("a wait for {}-{}:{}", stream_name(wait.stream), wait.calls_back,
                                  wait.instruction),
                      "an earlier instruction of that stream"});
  }

  std::optional<Violation> check_aliases(At at, const Instruction& instruction) {
    if (may_alias(instruction)) return std::nullopt;
    const int position = step_.order.position(at.call, at.instruction);
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const bool writes = instruction.uses[u].writes();
      const AtomSpan span = step_.atoms_of(at, u);
      for (int atom = span.begin; atom < span.end; ++atom) {
        Touch& touch = touched_[static_cast<std::size_t>(atom)];
        if (touch.position == position && (writes || touch.is_written)) {
          return violation(
              step_.program, "V5", at, instruction.uses[u].role, step_.atoms.range_of(atom),
              {"written while another operand of it is in use", "operands apart from each other"});
        }
        touch = {position, writes};
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> check_uses(At at, const Instruction& instruction) {
    const int position = step_.order.position(at.call, at.instruction);
    const auto stream = static_cast<std::size_t>(instruction.stream);
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      const AtomSpan span = step_.atoms_of(at, u);
      for (int atom = span.begin; atom < span.end; ++atom) {
        if (auto found = check_atom(at, use.role, use.writes(), atom)) return found;
        History& history = history_[static_cast<std::size_t>(atom)];
        if (use.reads()) history.read[stream] = position;
        if (use.writes()) history.written[stream] = position;
      }
    }
    return std::nullopt;
  }

  /// A free gives the bytes away: it conflicts with every use.
  std::optional<Violation> check_frees(At at, const Instruction& instruction) {
    for (const BufferId id : instruction.frees) {
      const AtomSpan span = step_.atoms.of(step_.program.whole(id));
      for (int atom = span.begin; atom < span.end; ++atom) {
        if (auto found = check_atom(at, Role::kData, true, atom)) return found;
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> check_atom(At at, Role role, bool writes, int atom) const {
    const History& history = history_[static_cast<std::size_t>(atom)];
    const int position = step_.order.position(at.call, at.instruction);
    const Clock& before = step_.order.before(position);
    const auto own = static_cast<std::size_t>(
        step_.program.at(step_.program.calls[static_cast<std::size_t>(at.call)].template_index)
            .instructions[static_cast<std::size_t>(at.instruction)]
            .stream);
    for (std::size_t s = 0; s < before.size(); ++s) {
      const int other = std::max(history.written[s], writes ? history.read[s] : -1);
      if (s == own || other <= before[s]) continue;
      return violation(
          step_.program, "V5", at, role, step_.atoms.range_of(atom),
          {fmt::format("while stream {} may still {} it", stream_name(static_cast<Stream>(s)),
                       history.written[s] > before[s] ? "write" : "read"),
           "a wait for that access"});
    }
    return std::nullopt;
  }

  const StepView& step_;
  std::vector<History> history_;  ///< by atom
  std::vector<Touch> touched_;    ///< by atom: by the instruction in hand
};

}  // namespace

std::optional<Violation> check_races(const StepView& step) {
  return RaceCheck(step).run();
}

}  // namespace trireme
