// V16: value numbering. Equal numbers mean equal values: a recomputed value bears the number of the
// kept one, and an operand must bear the number of the value that the model names for it.
#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "trireme/program/model_wiring.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// A value number is a hash of what the value is computed from; two of the about 1e6 numbers of a
/// step are equal by accident with a probability of 1e12 / 2^65 < 1e-7. 0 means none.
using Number = std::uint64_t;

/// Finaliser of SplitMix64 (Steele et al. 2014, doi:10.1145/2660193.2660195).
Number scramble(Number x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return (x ^ (x >> 31)) | 1ULL;  // never 0
}

template <typename... Parts>
Number mix(Parts... parts) {
  Number result = 0;
  ((result = scramble(result ^ static_cast<Number>(parts))), ...);
  return result;
}

enum Tag : Number { kEntry = 1, kLoaded, kComputed, kGradientValue, kOther };

/// What one part of one micro-batch read and wrote, by role.
struct Record {
  int micro_batch = -1;
  std::array<Number, kNumRoles> numbers{};
  [[nodiscard]] Number& at(Role role) { return numbers[static_cast<std::size_t>(role)]; }
};

class ValueCheck {
 public:
  explicit ValueCheck(const StepView& step)
      : step_(step),
        wiring_(step.program),
        records_(static_cast<std::size_t>(step.program.num_micro_batches) *
                 static_cast<std::size_t>(wiring_.size())) {
    numbers_.reserve(static_cast<std::size_t>(step.atoms.size()));
    for (int atom = 0; atom < step.atoms.size(); ++atom) numbers_.push_back(mix(kEntry, atom));
  }

  std::optional<Violation> run() {
    return step_.find_first([this](At at, const Call& call, const Instruction& instruction) {
      return visit(at, call, instruction);
    });
  }

 private:
  std::optional<Violation> visit(At at, const Call& call, const Instruction& instruction) {
    if (instruction.op == Op::kLoad) {
      load(at, call, instruction);
      return std::nullopt;
    }
    if (is_forward(instruction.op) || is_backward(instruction.op))
      return run_part(at, call, instruction);
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      if (instruction.uses[u].writes()) {
        write(step_.atoms_of(at, u), mix(kOther, step_.order.position(at.call, at.instruction), u));
      }
    }
    return std::nullopt;
  }

  // Numbers of atoms and of operands
  // ------------------------------------------------------------------

  [[nodiscard]] Number read(AtomSpan span) const {
    Number result = numbers_[static_cast<std::size_t>(span.begin)];
    for (int atom = span.begin + 1; atom < span.end; ++atom)
      result = mix(result, numbers_[static_cast<std::size_t>(atom)]);
    return result;
  }
  void write(AtomSpan span, Number number) {
    numbers_[static_cast<std::size_t>(span.begin)] = number;
    for (int atom = span.begin + 1; atom < span.end; ++atom)
      numbers_[static_cast<std::size_t>(atom)] = mix(number, atom - span.begin);
  }

  Record& record(const Call& call, int part) {
    Record& result = records_[static_cast<std::size_t>(call.micro_batch) *
                                  static_cast<std::size_t>(wiring_.size()) +
                              static_cast<std::size_t>(part)];
    if (result.micro_batch != call.micro_batch) result = {.micro_batch = call.micro_batch};
    return result;
  }

  void load(At at, const Call& call, const Instruction& instruction) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Role role = instruction.uses[u].role;
      write(step_.atoms_of(at, u), mix(kLoaded, role, call.micro_batch));
      record(call, 0).at(role) = read(step_.atoms_of(at, u));
    }
  }

  // Parts
  // ------------------------------------------------------------------------------------------------

  std::optional<Violation> run_part(At at, const Call& call, const Instruction& instruction) {
    const int number = wiring_.number(instruction.part, instruction.layer, instruction.site);
    const WiredPart& part = wiring_.part(number);
    Record& own = record(call, number);
    auto found = check_parameters(at, part, instruction);
    if (!found && instruction.op != Op::kRecompute)
      found = check_needs(at, call, part, instruction);
    if (!found && instruction.op != Op::kForward) found = check_kept(at, own, instruction);
    if (found) return found;
    const Number inputs = number_of_inputs(at, instruction);
    if (instruction.op == Op::kForward) remember_reads(at, own, instruction);
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (!use.writes() || step_.is_kind(use, MemoryKind::kGradients)) continue;
      const Number value = output_number(at, instruction, use.role, inputs);
      write(step_.atoms_of(at, u), value);
      const Number written = read(step_.atoms_of(at, u));
      if (instruction.op == Op::kRecompute) {
        if (written != own.at(use.role)) return differs(at, use, "what the forward part wrote");
      } else {
        own.at(use.role) = written;
      }
    }
    if (instruction.op == Op::kForward && is_norm(instruction.part) && !instruction.has(Role::kH))
      own.at(Role::kH) = own.at(Role::kX);  // no branch to add: h is x
    return std::nullopt;
  }

  Violation differs(At at, const Use& use, std::string_view due) const {
    return violation(step_.program, "V16", at, use.role, use.range,
                     {"with another value", std::string(due)});
  }

  /// Weights are those of the part and layer.
  std::optional<Violation> check_parameters(At at, const WiredPart& part,
                                            const Instruction& instruction) const {
    for (const ParameterUse& due : part.parameters) {
      const Range& range = step_.program.parameters[static_cast<std::size_t>(due.row)].parameter;
      const Use* use = instruction.find(due.role);
      if (use == nullptr && !needs_parameter(part, instruction, due.role)) continue;
      if (use == nullptr) return missing(at, due.role);
      if (use->range == range && use->access == Access::kRead) continue;
      return violation(step_.program, "V16", at, due.role, use->range,
                       {fmt::format("with access {}", access_name(use->access)),
                        fmt::format("R {}, {}", range_label(step_.program, range),
                                    step_.table.rows()[static_cast<std::size_t>(due.row)].name)});
    }
    return std::nullopt;
  }

  [[nodiscard]] static bool needs_parameter(const WiredPart& part, const Instruction& instruction,
                                            Role role) {
    if (is_forward(instruction.op)) return true;
    if (instruction.op == Op::kBackwardWeight || part.part == Part::kEmbed) return false;
    return role != Role::kBias;
  }

  Violation missing(At at, Role role) const {
    return violation(step_.program, "V16", at,
                     {fmt::format("no operand {}", role_name(role)), "the operand"});
  }

  /// Operands come from the parts that the model names.
  std::optional<Violation> check_needs(At at, const Call& call, const WiredPart& part,
                                       const Instruction& instruction) {
    for (const Need& need : instruction.op == Op::kForward ? part.forward : part.backward) {
      if (need.half == Half::kWeight && instruction.op == Op::kBackwardInput) continue;
      if (need.half == Half::kInput && instruction.op == Op::kBackwardWeight) continue;
      const auto u = index_of(instruction, need.role);
      if (!u) return missing(at, need.role);
      const Number due = record(call, need.part).at(need.source);
      const Use& use = instruction.uses[*u];
      if (use.reads() && due != 0 && read(step_.atoms_of(at, *u)) == due) continue;
      const WiredPart& source = wiring_.part(need.part);
      const std::string name =
          need.part == 0 ? "LOAD"
                         : fmt::format("{}{}", part_name(source.part),
                                       source.layer < 0 ? std::string()
                                                        : fmt::format(" layer={}", source.layer));
      return differs(at, use,
                     fmt::format("a read of {} of {} in micro-batch {}", role_name(need.source),
                                 name, call.micro_batch));
    }
    return std::nullopt;
  }

  [[nodiscard]] static std::optional<std::size_t> index_of(const Instruction& instruction,
                                                           Role role) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      if (instruction.uses[u].role == role) return u;
    }
    return std::nullopt;
  }

  /// RECOMP and the backward parts read what the forward part of the same name had.
  std::optional<Violation> check_kept(At at, Record& own, const Instruction& instruction) const {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (use.access != Access::kRead) continue;
      const Number due = own.at(use.role);
      if (due == 0 || read(step_.atoms_of(at, u)) == due) continue;
      return differs(at, use, "the value that the forward part had");
    }
    return std::nullopt;
  }

  void remember_reads(At at, Record& own, const Instruction& instruction) const {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (use.access == Access::kRead) own.at(use.role) = read(step_.atoms_of(at, u));
    }
  }

  /// Independent of the order of operands.
  [[nodiscard]] Number number_of_inputs(At at, const Instruction& instruction) const {
    Number sum = 0;
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (use.reads()) sum += mix(use.role, read(step_.atoms_of(at, u)));
    }
    return sum;
  }

  /// Number of operand `role` among those with these roles; a fixed one if it is absent.
  [[nodiscard]] Number operand(At at, const Instruction& instruction, Role role) const {
    const auto u = index_of(instruction, role);
    return u ? read(step_.atoms_of(at, *u)) : mix(kEntry, -1);
  }

  /// A norm's y and statistics are functions of h, whether h = x + delta was just made or kept.
  [[nodiscard]] Number output_number(At at, const Instruction& instruction, Role role,
                                     Number inputs) const {
    const Number name = mix(kComputed, instruction.part, instruction.layer + 1, instruction.site);
    if (is_backward(instruction.op)) return mix(kGradientValue, name, instruction.op, role, inputs);
    if (!is_norm(instruction.part)) return mix(name, role, inputs);
    const bool is_summed = instruction.has(Role::kX);
    const Number h = !is_summed                      ? operand(at, instruction, Role::kH)
                     : instruction.has(Role::kDelta) ? mix(name, Role::kH, sum_of(at, instruction))
                                                     : operand(at, instruction, Role::kX);
    if (role == Role::kH) return h;
    if (role == Role::kStats) return mix(name, role, h);
    return mix(name, role, h, operand(at, instruction, Role::kWeight),
               operand(at, instruction, Role::kBias));
  }
  [[nodiscard]] Number sum_of(At at, const Instruction& norm) const {
    return mix(operand(at, norm, Role::kX), operand(at, norm, Role::kDelta));
  }

  const StepView& step_;
  ModelWiring wiring_;
  std::vector<Record> records_;  ///< by (frame, part)
  std::vector<Number> numbers_;  ///< by atom
};

}  // namespace

std::optional<Violation> check_values(const StepView& step) {
  return ValueCheck(step).run();
}

}  // namespace trireme
