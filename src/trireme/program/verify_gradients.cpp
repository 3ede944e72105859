// V10, V15 and V17 of one rank: abstract values of gradient bytes. A byte's value is the set of
// (micro-batch, copy) contributions that it sums, and whether it is summed over dp.
#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "trireme/program/model_wiring.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// Contributions of one copy come in ascending order (V17), so count and last describe the set.
struct Contributions {
  int count = 0;
  int last = -1;
};

constexpr int kAsParameter =
    0;  ///< the copy of every untied parameter, and a tied table's as embedding
constexpr int kAsHead = 1;

enum class Reduction : std::uint8_t { kLocal, kReduced, kGarbage };

struct GradientAtom {
  int row = -1;  ///< of the parameter table; -1: padding
  std::array<Contributions, 2> copies{};
  Reduction reduction = Reduction::kLocal;
  bool is_zeroed = false;
  std::int8_t num_in_norm = 0;
};

class GradientCheck {
 public:
  explicit GradientCheck(const StepView& step)
      : step_(step), wiring_(step.program), atoms_(static_cast<std::size_t>(step.atoms.size())) {
    for (std::size_t row = 0; row < step.program.parameters.size(); ++row) {
      const ParameterSlot& slot = step.program.parameters[row];
      if (slot.gradient.buffer >= 0) own(step.atoms.of(slot.gradient), row);
      if (slot.head_gradient) own(step.atoms.of(*slot.head_gradient), row);
    }
  }

  std::optional<Violation> run() {
    return step_.find_first([this](At at, const Call& call, const Instruction& instruction) {
      return visit(at, call, instruction);
    });
  }

 private:
  void own(AtomSpan span, std::size_t row) {
    for (int atom = span.begin; atom < span.end; ++atom) this->at(atom).row = static_cast<int>(row);
  }
  GradientAtom& at(int atom) { return atoms_[static_cast<std::size_t>(atom)]; }
  [[nodiscard]] const GradientAtom& at(int atom) const {
    return atoms_[static_cast<std::size_t>(atom)];
  }

  Violation fault(std::string_view rule, At place, const Use& use, int atom, std::string found,
                  std::string due) const {
    return violation(step_.program, rule, place, use.role,
                     atom < 0 ? use.range : step_.atoms.range_of(atom),
                     {std::move(found), std::move(due)});
  }

  std::optional<Violation> visit(At place, const Call& call, const Instruction& instruction) {
    switch (instruction.op) {
      case Op::kNormSquare:
        return add_to_norm(place, instruction);
      case Op::kOptStep:
        return check_use(place, instruction, Role::kGradient);
      case Op::kClip:
        return check_norm(place);
      case Op::kAdd:
        return add_copies(place, instruction);
      case Op::kReduceScatter:
        return scatter(place, instruction);
      default:
        break;
    }
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (!use.writes() || !step_.is_kind(use, MemoryKind::kGradients)) continue;
      if (auto found = write(place, call, instruction, u)) return found;
    }
    return std::nullopt;
  }

  std::optional<Violation> write(At place, const Call& call, const Instruction& instruction,
                                 std::size_t u) {
    const Use& use = instruction.uses[u];
    const AtomSpan span = step_.atoms_of(place, u);
    if (instruction.op == Op::kZero) {
      for (int atom = span.begin; atom < span.end; ++atom)
        at(atom) = {.row = at(atom).row, .is_zeroed = true};
      return std::nullopt;
    }
    if (instruction.op == Op::kAllReduce) return reduce(place, use, span);
    if (!is_backward(instruction.op))
      return fault("V10", place, use, -1, "written", "gradients from backward parts only");
    return contribute(place, call, instruction, u);
  }

  // Contributions
  // ----------------------------------------------------------------------------------------

  std::optional<Violation> contribute(At place, const Call& call, const Instruction& instruction,
                                      std::size_t u) {
    const Use& use = instruction.uses[u];
    const int number = wiring_.number(instruction.part, instruction.layer, instruction.site);
    const ParameterUse* due = nullptr;
    for (const ParameterUse& gradient : wiring_.part(number).gradients) {
      if (gradient.role == use.role) due = &gradient;
    }
    if (due == nullptr)
      return fault("V10", place, use, -1, "as a gradient", "no gradient of this part");
    const ParameterSlot& slot = step_.program.parameters[static_cast<std::size_t>(due->row)];
    const Range& target =
        due->is_head_copy && slot.head_gradient ? *slot.head_gradient : slot.gradient;
    if (use.range != target) {
      return fault("V10", place, use, -1, "which is not the gradient of this part",
                   target.buffer < 0 ? "none" : range_label(step_.program, target));
    }
    const AtomSpan span = step_.atoms_of(place, u);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (auto found = add_one(place, use, atom, due->is_head_copy ? kAsHead : kAsParameter,
                               call.micro_batch))
        return found;
    }
    return std::nullopt;
  }

  std::optional<Violation> add_one(At place, const Use& use, int atom, int copy, int micro_batch) {
    GradientAtom& value = at(atom);
    if (value.reduction != Reduction::kLocal) {
      return fault("V10", place, use, atom, "already reduced over dp",
                   "all contributions before the reduction");
    }
    if (use.access == Access::kWrite) {
      value.copies = {};
      value.is_zeroed = false;
    } else if (value.is_zeroed) {
      return fault("V4", place, use, atom, "added to zeros", "mode W for the first contribution");
    }
    Contributions& sum = value.copies[static_cast<std::size_t>(copy)];
    if (sum.count > 0 && sum.last == micro_batch) {
      return fault("V10", place, use, atom,
                   fmt::format("a second contribution of micro-batch {}", micro_batch), "one");
    }
    if (sum.last > micro_batch) {
      return fault("V17", place, use, atom,
                   fmt::format("micro-batch {} added after {}", micro_batch, sum.last),
                   "ascending micro-batches");
    }
    sum = {.count = sum.count + 1, .last = micro_batch};
    return std::nullopt;
  }

  /// y += x of a tied table's two gradients.
  std::optional<Violation> add_copies(At place, const Instruction& instruction) {
    const Use* x = instruction.find(Role::kX);
    const Use* y = instruction.find(Role::kY);
    if (x == nullptr || y == nullptr || !step_.is_kind(*y, MemoryKind::kGradients))
      return std::nullopt;
    const AtomSpan from = step_.atoms.of(x->range), to = step_.atoms.of(y->range);
    const int row = at(to.begin).row;
    const ParameterSlot* slot =
        row < 0 ? nullptr : &step_.program.parameters[static_cast<std::size_t>(row)];
    const bool is_pair = slot != nullptr && slot->head_gradient &&
                         *slot->head_gradient == x->range && slot->gradient == y->range;
    if (!is_pair || y->access != Access::kAccumulate)
      return fault("V10", place, *y, -1, "added to", "y += the same table's gradient as head");
    const GradientAtom added = at(from.begin);
    for (int atom = to.begin; atom < to.end; ++atom) {
      GradientAtom& value = at(atom);
      if (value.reduction != Reduction::kLocal || added.reduction != Reduction::kLocal) {
        return fault("V10", place, *y, atom, "already reduced over dp",
                     "the sum of both copies before the reduction");
      }
      for (std::size_t copy = 0; copy < value.copies.size(); ++copy) {
        if (added.copies[copy].count == 0) continue;
        if (value.copies[copy].count > 0) {
          return fault("V10", place, *y, atom, "a copy that it already holds",
                       "each tied copy once");
        }
        value.copies[copy] = added.copies[copy];
      }
    }
    return std::nullopt;
  }

  // Reductions
  // -------------------------------------------------------------------------------------------

  std::optional<Violation> reduce(At place, const Use& use, AtomSpan span) {
    for (int atom = span.begin; atom < span.end; ++atom) {
      GradientAtom& value = at(atom);
      if (value.reduction != Reduction::kLocal) {
        return fault("V10", place, use, atom, "already reduced over dp", "one reduction");
      }
      value.reduction = Reduction::kReduced;
    }
    return std::nullopt;
  }

  std::optional<Violation> scatter(At place, const Instruction& instruction) {
    const Use* data = instruction.find(Role::kData);
    const Use* shard = instruction.find(Role::kShard);
    if (data == nullptr || shard == nullptr)
      return violation(step_.program, "V10", place, {"no data or no shard", "both operands"});
    const auto own = step_.own_shard(data->range);
    if (!own || *own != shard->range || !step_.is_kind(*data, MemoryKind::kGradients)) {
      return fault("V10", place, *shard, -1, "as shard",
                   own ? range_label(step_.program, *own) : "data that divides by dp");
    }
    if (auto found = reduce(place, *data, step_.atoms.of(data->range))) return found;
    const AtomSpan whole = step_.atoms.of(data->range), kept = step_.atoms.of(shard->range);
    for (int atom = whole.begin; atom < whole.end; ++atom) {
      if (atom < kept.begin || atom >= kept.end) at(atom).reduction = Reduction::kGarbage;
    }
    return std::nullopt;
  }

  // Uses
  // -------------------------------------------------------------------------------------------------

  [[nodiscard]] int num_copies(int row) const {
    return step_.program.parameters[static_cast<std::size_t>(row)].head_gradient ? 2 : 1;
  }

  /// What keeps a gradient byte from being complete; nothing if it is.
  [[nodiscard]] std::optional<Finding> incompleteness(const GradientAtom& value) const {
    const int due = step_.program.num_micro_batches;
    for (int copy = 0; copy < num_copies(value.row); ++copy) {
      const int count = value.copies[static_cast<std::size_t>(copy)].count;
      if (count == due) continue;
      return Finding{fmt::format("{} contributions{}", count, copy == kAsHead ? " as head" : ""),
                     fmt::format("one of each of {} micro-batches", due)};
    }
    if (value.reduction == Reduction::kGarbage)
      return Finding{"outside this rank's shard", "the reduced shard"};
    if ((value.reduction == Reduction::kReduced) != (step_.dp > 1)) {
      return Finding{
          step_.dp > 1 ? "not reduced over dp" : "reduced over dp",
          fmt::format("{} for dp={}", step_.dp > 1 ? "one reduction" : "none", step_.dp)};
    }
    return std::nullopt;
  }

  std::optional<Violation> check_use(At place, const Instruction& instruction, Role role) const {
    const Use* use = instruction.find(role);
    if (use == nullptr) {
      return violation(step_.program, "V10", place,
                       {fmt::format("no operand {}", role_name(role)), "a gradient"});
    }
    const AtomSpan span = step_.atoms.of(use->range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      const GradientAtom& value = at(atom);
      if (value.row < 0 || value.row != instruction.parameter) {
        return fault("V10", place, *use, atom,
                     value.row < 0 ? "which is no gradient"
                                   : fmt::format("the gradient of parameter {}", value.row),
                     fmt::format("the gradient of parameter {}", instruction.parameter));
      }
      if (const auto missing = incompleteness(value))
        return fault("V10", place, *use, atom, missing->found, missing->due);
    }
    return std::nullopt;
  }

  std::optional<Violation> add_to_norm(At place, const Instruction& instruction) {
    if (auto found = check_use(place, instruction, Role::kX)) return found;
    const Use& use = *instruction.find(Role::kX);
    const AtomSpan span = step_.atoms.of(use.range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (++at(atom).num_in_norm == 1) continue;
      return fault("V15", place, use, atom, "in the norm a second time", "once");
    }
    return std::nullopt;
  }

  /// Every complete gradient byte is in the norm when the coefficient is made.
  std::optional<Violation> check_norm(At place) const {
    for (const ParameterSlot& slot : step_.program.parameters) {
      if (slot.gradient.buffer < 0) continue;
      const AtomSpan span = step_.atoms.of(slot.gradient);
      for (int atom = span.begin; atom < span.end; ++atom) {
        if (at(atom).num_in_norm == 1 || at(atom).reduction == Reduction::kGarbage) continue;
        return violation(
            step_.program, "V15", place,
            {fmt::format("{}, of parameter {}, not in the norm",
                         range_label(step_.program, step_.atoms.range_of(atom)), at(atom).row),
             "every complete gradient in the norm once"});
      }
    }
    return std::nullopt;
  }

  const StepView& step_;
  ModelWiring wiring_;
  std::vector<GradientAtom> atoms_;
};

}  // namespace

std::optional<Violation> check_gradients(const StepView& step) {
  if (step.program.kind != ProgramKind::kTrain) return std::nullopt;
  return GradientCheck(step).run();
}

}  // namespace trireme
