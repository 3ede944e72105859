// V14: token count, loss and clip coefficient; and, of V15, the reduction of the norm.
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// What a scalar stands for.
enum class Scalar : std::uint8_t {
  kOther,
  kZero,
  kZeroOfAll,  ///< zero, summed over dp: the norm of a rank that owns padding only
  kTokens,
  kTokensOfAll,
  kInverse,  ///< 1 / tokens of all ranks
  kLoss,
  kLossOfAll,
  kNorm,
  kNormOfAll,
  kCoefficient,
};

std::string_view scalar_name(Scalar scalar) {
  constexpr std::array<std::string_view, 11> kNames = {"something else",
                                                       "zero",
                                                       "zero summed over dp",
                                                       "this rank's token count",
                                                       "the token count summed over dp",
                                                       "1 / the token count summed over dp",
                                                       "this rank's loss",
                                                       "the loss summed over dp",
                                                       "this rank's squared norm",
                                                       "the squared norm summed over dp",
                                                       "this step's clip coefficient"};
  return kNames.at(static_cast<std::size_t>(scalar));
}

class ScalarCheck {
 public:
  explicit ScalarCheck(const StepView& step)
      : step_(step),
        is_distributed_(step.dp > 1),
        values_(static_cast<std::size_t>(step.atoms.size()), Scalar::kOther) {
    for (const Template& item : step.program.templates) {
      for (const Instruction& instruction : item.instructions)
        is_sharded_ = is_sharded_ || instruction.op == Op::kReduceScatter;
    }
  }

  std::optional<Violation> run() {
    auto found = step_.find_first([this](At at, const Call& call, const Instruction& instruction) {
      return visit(at, call, instruction);
    });
    return found ? found : check_end();
  }

 private:
  [[nodiscard]] Scalar total_tokens() const {
    return is_distributed_ ? Scalar::kTokensOfAll : Scalar::kTokens;
  }
  [[nodiscard]] Scalar total_loss() const {
    return is_distributed_ ? Scalar::kLossOfAll : Scalar::kLoss;
  }

  Scalar& value(int atom) { return values_[static_cast<std::size_t>(atom)]; }

  void set(const Use* use, Scalar scalar) {
    if (use == nullptr) return;
    const AtomSpan span = step_.atoms.of(use->range);
    for (int atom = span.begin; atom < span.end; ++atom) value(atom) = scalar;
  }

  /// Operand `role` is there and stands for `due` (or `also`).
  std::optional<Violation> require(std::string_view rule, At at, const Instruction& instruction,
                                   Role role, Scalar due, std::optional<Scalar> also = {}) {
    const Use* use = instruction.find(role);
    if (use == nullptr) {
      return violation(
          step_.program, rule, at,
          {fmt::format("no operand {}", role_name(role)), std::string(scalar_name(due))});
    }
    const AtomSpan span = step_.atoms.of(use->range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (value(atom) == due || value(atom) == also) continue;
      return violation(
          step_.program, rule, at, role, step_.atoms.range_of(atom),
          {fmt::format("holding {}", scalar_name(value(atom))), std::string(scalar_name(due))});
    }
    return std::nullopt;
  }

  std::optional<Violation> visit(At at, const Call& call, const Instruction& instruction) {
    switch (instruction.op) {
      case Op::kZero:
        set(instruction.find(Role::kY), Scalar::kZero);
        return std::nullopt;
      case Op::kCount:
        tokens_ = instruction.find(Role::kY);
        set(tokens_, Scalar::kTokens);
        return std::nullopt;
      case Op::kInverse:
        set(instruction.find(Role::kY), Scalar::kInverse);
        return require("V14", at, instruction, Role::kX, total_tokens());
      case Op::kNormSquare:
        return add_to_norm(at, instruction);
      case Op::kAllReduce:
        return reduce(at, instruction);
      case Op::kClip:
        return clip(at, instruction);
      case Op::kOptStep:
        return require("V14", at, instruction, Role::kCoefficient, Scalar::kCoefficient);
      default:
        break;
    }
    if (instruction.part == Part::kHead) return run_head(at, call, instruction);
    return overwrite(at, instruction);
  }

  std::optional<Violation> overwrite(At at, const Instruction& instruction) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      if (!instruction.uses[u].writes()) continue;
      const AtomSpan span = step_.atoms_of(at, u);
      for (int atom = span.begin; atom < span.end; ++atom) value(atom) = Scalar::kOther;
    }
    return std::nullopt;
  }

  std::optional<Violation> run_head(At at, const Call& call, const Instruction& instruction) {
    if (is_backward(instruction.op)) {
      auto found = require("V14", at, instruction, Role::kScale, Scalar::kInverse);
      if (found) return found;
    }
    const bool is_first = num_losses_ == 0;
    auto found =
        require("V14", at, instruction, Role::kLoss, is_first ? Scalar::kZero : Scalar::kLoss);
    if (found) return found;
    loss_ = instruction.find(Role::kLoss);
    if (loss_->access != Access::kAccumulate) {
      return violation(step_.program, "V14", at, Role::kLoss, loss_->range,
                       {fmt::format("with access {}", access_name(loss_->access)),
                        "A: a sum over micro-batches"});
    }
    if (call.micro_batch < last_loss_) {
      return violation(step_.program, "V17", at, Role::kLoss, loss_->range,
                       {fmt::format("micro-batch {} added after {}", call.micro_batch, last_loss_),
                        "ascending micro-batches"});
    }
    last_loss_ = call.micro_batch;
    ++num_losses_;
    const Use loss = *loss_;
    if (auto overwritten = overwrite(at, instruction)) return overwritten;
    set(&loss, Scalar::kLoss);
    return std::nullopt;
  }

  std::optional<Violation> add_to_norm(At at, const Instruction& instruction) {
    auto found = require("V15", at, instruction, Role::kNormSquare, Scalar::kZero, Scalar::kNorm);
    if (found) return found;
    const Use* norm = instruction.find(Role::kNormSquare);
    if (norm->access != Access::kAccumulate) {
      return violation(
          step_.program, "V15", at, Role::kNormSquare, norm->range,
          {fmt::format("with access {}", access_name(norm->access)), "A: a sum over parameters"});
    }
    set(norm, Scalar::kNorm);
    return std::nullopt;
  }

  std::optional<Violation> reduce(At at, const Instruction& instruction) {
    const Use* data = instruction.find(Role::kData);
    if (data == nullptr)
      return violation(step_.program, "V6", at, {"no operand data", "the data to sum"});
    if (step_.is_kind(*data, MemoryKind::kGradients)) return std::nullopt;
    const AtomSpan span = step_.atoms.of(data->range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      const Scalar before = value(atom);
      const bool is_sum = before == Scalar::kZero || before == Scalar::kTokens ||
                          before == Scalar::kLoss || before == Scalar::kNorm;
      const bool is_incomplete =
          before == Scalar::kLoss && num_losses_ != step_.program.num_micro_batches;
      if (is_sum && !is_incomplete && is_distributed_) {
        value(atom) = static_cast<Scalar>(static_cast<int>(before) + 1);
        continue;
      }
      return violation(
          step_.program, before == Scalar::kNormOfAll ? "V15" : "V14", at, Role::kData,
          step_.atoms.range_of(atom),
          {is_incomplete ? fmt::format("holding the loss of {} micro-batches", num_losses_)
                         : fmt::format("holding {} with dp={}", scalar_name(before), step_.dp),
           "one sum over dp > 1 of each of token count, loss and sharded norm"});
    }
    return std::nullopt;
  }

  std::optional<Violation> clip(At at, const Instruction& instruction) {
    auto found = is_sharded_ ? require("V15", at, instruction, Role::kNormSquare,
                                       Scalar::kNormOfAll, Scalar::kZeroOfAll)
                             : require("V15", at, instruction, Role::kNormSquare, Scalar::kNorm);
    if (!found) found = require("V14", at, instruction, Role::kLoss, total_loss());
    set(instruction.find(Role::kCoefficient), Scalar::kCoefficient);
    return found;
  }

  /// The host reads the step's loss and token count.
  std::optional<Violation> check_end() {
    const ProgramKind kind = step_.program.kind;
    if (kind != ProgramKind::kTrain && kind != ProgramKind::kEval) return std::nullopt;
    for (const auto& [use, due] :
         {std::pair(tokens_, total_tokens()), std::pair(loss_, total_loss())}) {
      const Scalar held = use == nullptr ? Scalar::kOther : value(step_.atoms.of(use->range).begin);
      if (held == due) continue;
      return violation(step_.program, "V14",
                       {fmt::format("{} holding {} at the end of the step",
                                    use == nullptr ? std::string("no COUNT")
                                                   : range_label(step_.program, use->range),
                                    scalar_name(held)),
                        std::string(scalar_name(due))});
    }
    return std::nullopt;
  }

  const StepView& step_;
  bool is_distributed_;
  bool is_sharded_ = false;  ///< gradients are, so that no rank has the whole norm
  std::vector<Scalar> values_;
  const Use* tokens_ = nullptr;
  const Use* loss_ = nullptr;
  int num_losses_ = 0;
  int last_loss_ = -1;
};

}  // namespace

std::optional<Violation> check_scalars(const StepView& step) {
  return ScalarCheck(step).run();
}

}  // namespace trireme
