// V2 and V4: every byte that is read, added to or changed in place has been written.
#include <cstddef>

#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

class DefinitionCheck {
 public:
  explicit DefinitionCheck(const StepView& step)
      : step_(step), defined_in_(static_cast<std::size_t>(step.atoms.size()), kNever) {
    for (std::size_t id = 0; id < step.program.buffers.size(); ++id) {
      const Content content = step.program.buffers[id].content;
      const bool is_defined =
          content == Content::kState || content == Content::kConstant || content == Content::kInput;
      if (!is_defined) continue;
      set(step.atoms.of(step.program.whole(static_cast<BufferId>(id))), kAlways);
    }
  }

  std::optional<Violation> run() {
    return step_.find_first([this](At at, const Call&, const Instruction& instruction) {
      auto found = check_reads(at, instruction);
      for (std::size_t u = 0; u < instruction.uses.size() && !found; ++u) {
        const Use& use = instruction.uses[u];
        const bool is_transient = step_.buffer_of(use).content == Content::kTransient;
        if (use.writes()) set(step_.atoms_of(at, u), is_transient ? at.call : kAlways);
      }
      for (const BufferId id : instruction.frees)
        set(step_.atoms.of(step_.program.whole(id)), kNever);
      return found;
    });
  }

 private:
  static constexpr int kNever = -1;   ///< no value
  static constexpr int kAlways = -2;  ///< a value until the step ends; else the call that wrote it

  void set(AtomSpan span, int value) {
    for (int atom = span.begin; atom < span.end; ++atom)
      defined_in_[static_cast<std::size_t>(atom)] = value;
  }

  std::optional<Violation> check_reads(At at, const Instruction& instruction) const {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (!use.reads()) continue;
      const AtomSpan span = step_.atoms_of(at, u);
      for (int atom = span.begin; atom < span.end; ++atom) {
        const int value = defined_in_[static_cast<std::size_t>(atom)];
        if (value == kAlways || value == at.call) continue;
        const bool is_read = use.access == Access::kRead;
        return violation(step_.program, is_read ? "V2" : "V4", at, use.role,
                         step_.atoms.range_of(atom),
                         {is_read ? "read before it is written"
                                  : "added to or changed in place before it is written",
                          is_read ? "a write before" : "mode W for the first access"});
      }
    }
    return std::nullopt;
  }

  const StepView& step_;
  std::vector<int> defined_in_;  ///< by atom
};

}  // namespace

std::optional<Violation> check_definitions(const StepView& step) {
  return DefinitionCheck(step).run();
}

}  // namespace trireme
