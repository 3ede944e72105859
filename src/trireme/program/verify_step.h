// What the rules share: one rank's step, its atoms, its order and its model; and how they report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/program/atoms.h"
#include "trireme/program/groups.h"
#include "trireme/program/model_wiring.h"
#include "trireme/program/order.h"
#include "trireme/program/replicas.h"
#include "trireme/program/roots.h"
#include "trireme/program/verify.h"

namespace trireme {

/// An instruction of the step: index of its call, and its index in the call's template.
struct At {
  int call = -1;
  int instruction = -1;
};

/// What was found and what is due instead.
struct Finding {
  std::string found;
  std::string due;
};

[[nodiscard]] std::string range_label(const Program& program, const Range& range);

/// A violation by the program as a whole.
[[nodiscard]] Violation violation(const Program& program, std::string_view rule,
                                  const Finding& finding);
/// A violation by one instruction, named in the message.
[[nodiscard]] Violation violation(const Program& program, std::string_view rule, At at,
                                  const Finding& finding);
/// A violation by `range` of an operand of one instruction, both named in the message.
[[nodiscard]] Violation violation(const Program& program, std::string_view rule, At at, Role role,
                                  const Range& range, const Finding& finding);

/// One rank's step. The program must satisfy `check_operands` and outlive the view.
struct StepView {
  explicit StepView(const Program& of);

  const Program& program;
  AtomTable atoms;
  StepOrder order;
  ModelWiring wiring;
  Replicas replicas;
  ParameterRoots roots;
  std::vector<RootPart> params;  ///< by root: where this rank keeps parameters
  /// By root: where it keeps the shards of a bucket that is reduced at once.
  std::vector<std::optional<RootPart>> kept_gradients;
  std::vector<std::optional<RootPart>> reduced;  ///< by root: see reduced_gradients
  std::vector<bool> gradients;                   ///< by buffer, see has_gradients

  /// Calls `visit(at, template_index, call, instruction)` in program order until it returns a
  /// violation.
  template <typename Visit>
  std::optional<Violation> find_first(Visit visit) const {
    for (std::size_t c = 0; c < program.calls.size(); ++c) {
      const Call& call = program.calls[c];
      const auto& instructions = program.at(call.template_index).instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        const At at{.call = static_cast<int>(c), .instruction = static_cast<int>(i)};
        if (auto found = visit(at, call, instructions[i])) return found;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] const LocalModel& model() const { return wiring.model(); }
  /// Micro-batches of a stage in the order in which this rank runs its ops of the phases due.
  [[nodiscard]] std::vector<int> micro_batches(int stage, bool (*is_due)(Phase phase)) const;
  /// A collective on activations.
  [[nodiscard]] bool moves_activations(const Instruction& instruction) const;
  /// Atoms of operand `use` of the instruction at `at`.
  [[nodiscard]] AtomSpan atoms_of(At at, std::size_t use) const {
    return atoms.of(program.calls[static_cast<std::size_t>(at.call)], at.instruction,
                    static_cast<int>(use));
  }
  [[nodiscard]] const Buffer& buffer_of(const Use& use) const {
    return program.buffers[static_cast<std::size_t>(use.range.buffer)];
  }
  [[nodiscard]] bool is_kind(const Use& use, MemoryKind kind) const {
    return buffer_of(use).kind == kind;
  }
  /// The buffer has gradients: of the step, or for a while those of a bucket that is reduced at
  /// once.
  [[nodiscard]] bool has_gradients(const Use& use) const {
    return gradients[static_cast<std::size_t>(use.range.buffer)];
  }
  /// The root whose parameters, or kept gradients, are in the buffer; -1 if none.
  [[nodiscard]] int root_of_params(BufferId buffer) const;
  [[nodiscard]] int root_of_kept(BufferId buffer) const;
  [[nodiscard]] std::size_t root_of_row(std::size_t row) const {
    return static_cast<std::size_t>(roots.rows[row].root);
  }
  /// Elements of a row in its root.
  [[nodiscard]] Shard elems_of(std::size_t row) const { return elems_of_row(program, roots, row); }
  /// The shard of this rank in `whole`; nothing if it does not divide.
  [[nodiscard]] std::optional<Range> own_shard(const Range& whole) const;
};

/// By buffer: see StepView::has_gradients.
[[nodiscard]] std::vector<bool> gradient_buffers(const Program& program);

/// ZeRO: after their reduction a rank has only a shard of its gradients.
[[nodiscard]] bool scatters_gradients(const Program& program);

/// V13 of one program: operands, parameters, calls and frees name what exists.
[[nodiscard]] std::optional<Violation> check_operands(const Program& program);
/// V1: every part, update and load as often as the model says.
[[nodiscard]] std::optional<Violation> check_parts(const Program& program);
/// V3: transient buffers end once, after their last use.
[[nodiscard]] std::optional<Violation> check_frees(const Program& program);
/// V5: waits exist, and order what conflicts.
[[nodiscard]] std::optional<Violation> check_races(const StepView& step);
/// V2 and V4: what is read or added to is defined.
[[nodiscard]] std::optional<Violation> check_definitions(const StepView& step);
/// V16: an operation that is no part uses each operand as it must.
[[nodiscard]] std::optional<Violation> check_accesses(const StepView& step, At at,
                                                      const Instruction& instruction);
/// V16. To or from the rank that computes the other stage, under the tag that names the value:
/// activations are numbered by the stage that makes them, gradients behind all activations.
[[nodiscard]] std::optional<Violation> check_stage_address(const StepView& step, At at,
                                                           const Call& call,
                                                           const Instruction& instruction);
/// V16. To the next rank and from the one before, under the tag that names the value.
[[nodiscard]] std::optional<Violation> check_ring_address(const StepView& step, At at,
                                                          const WiredPart& part,
                                                          const Instruction& instruction);
/// V16: operands carry the values that the model names.
[[nodiscard]] std::optional<Violation> check_values(const StepView& step);
/// V10, V15 and V17: gradients hold every contribution once, in order, and are in the norm once.
[[nodiscard]] std::optional<Violation> check_gradients(const StepView& step);
/// V11 and V12: parameters are read before and written by one update.
[[nodiscard]] std::optional<Violation> check_updates(const StepView& step);
/// V14: token count, loss and coefficient.
[[nodiscard]] std::optional<Violation> check_scalars(const StepView& step);
/// V6, V7 and V9: peers call the same collectives and match messages.
[[nodiscard]] std::optional<Violation> check_peers(const std::vector<Program>& programs);
/// V18: replicas do the same.
[[nodiscard]] std::optional<Violation> check_replicas(const std::vector<Program>& programs);
/// V15 across ranks: every element in the norm once.
[[nodiscard]] std::optional<Violation> check_norm_cover(const std::vector<Program>& programs);

}  // namespace trireme
