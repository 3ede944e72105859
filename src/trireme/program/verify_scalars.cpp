// V14: token count, loss and clip coefficient; and, of V15, the reduction of the norm.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// What a scalar stands for on one rank.
enum class Scalar : std::uint8_t { kOther, kZero, kTokens, kInverse, kLoss, kNorm, kCoefficient };

/// A scalar and the communicators over which it is summed.
struct Summed {
  Scalar scalar = Scalar::kOther;
  Groups over = 0;
  bool operator==(const Summed&) const = default;
};

std::string summed_name(const Summed& value) {
  constexpr std::array<std::string_view, 7> kNames = {"something else",
                                                      "zero",
                                                      "the token count",
                                                      "1 / the token count of all ranks",
                                                      "the loss",
                                                      "the squared norm",
                                                      "this step's clip coefficient"};
  std::string name(kNames.at(static_cast<std::size_t>(value.scalar)));
  if (value.over != 0) name += fmt::format(" summed over {}", groups_text(value.over));
  return name;
}

class ScalarCheck {
 public:
  explicit ScalarCheck(const StepView& step)
      : step_(step), values_(static_cast<std::size_t>(step.atoms.size())) {
    const bool is_sharded = scatters_gradients(step.program);
    const Groups pp = extended(Axis::kPp), tp = extended(Axis::kTp);
    const Groups all = step.replicas.size > 1 ? group_bit(step.replicas.group) : 0;
    tokens_over_ = all;
    loss_over_ = all | pp;  // it arises in the last stage, on all ranks of a tp group
    norm_over_ = pp | tp | (is_sharded ? group_bit(step.replicas.shard_group) : 0);
    const int last = step.model().pipeline().num_stages() - 1;
    loss_order_ =
        step.program.kind == ProgramKind::kTrain
            ? step.micro_batches(last, makes_input_gradient)
            : step.micro_batches(last, [](Phase phase) { return phase == Phase::kForward; });
    num_losses_due_ = narrow<int>(loss_order_.size()) * std::max(1, step.wiring.num_head_chunks());
    if (const auto loss = step.program.find_buffer("loss")) loss_range_ = step.program.whole(*loss);
  }

  std::optional<Violation> run() {
    auto found = step_.find_first([this](At at, const Call& call, const Instruction& instruction) {
      return visit(at, call, instruction);
    });
    return found ? found : check_end();
  }

 private:
  [[nodiscard]] Groups extended(Axis axis) const {
    const bool is_extended = step_.program.request.layout.mesh().extent(axis) > 1;
    return is_extended ? group_bit(axis_name(axis)) : 0;
  }

  Summed& value(int atom) { return values_[static_cast<std::size_t>(atom)]; }

  void set(const Use* use, Summed scalar) {
    if (use == nullptr) return;
    const AtomSpan span = step_.atoms.of(use->range);
    for (int atom = span.begin; atom < span.end; ++atom) value(atom) = scalar;
  }

  /// Operand `role` is there and stands for `due` (or for zero, summed as that).
  std::optional<Violation> require(std::string_view rule, At at, const Instruction& instruction,
                                   Role role, Summed due, bool may_be_zero = false) {
    const Use* use = instruction.find(role);
    if (use == nullptr) {
      return violation(step_.program, rule, at,
                       {fmt::format("no operand {}", role_name(role)), summed_name(due)});
    }
    const AtomSpan span = step_.atoms.of(use->range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (value(atom) == due) continue;
      if (may_be_zero && value(atom) == Summed{Scalar::kZero, due.over}) continue;
      return violation(step_.program, rule, at, role, step_.atoms.range_of(atom),
                       {fmt::format("holding {}", summed_name(value(atom))), summed_name(due)});
    }
    return std::nullopt;
  }

  /// Learning rate, betas and the largest norm come from the host.
  std::optional<Violation> require_hyper(At at, const Instruction& instruction) const {
    const Use* use = instruction.find(Role::kHyper);
    const auto hyper = step_.program.find_buffer("hyper");
    const bool is_right = use != nullptr && hyper && use->access == Access::kRead &&
                          use->range == step_.program.whole(*hyper);
    if (is_right) return std::nullopt;
    return violation(
        step_.program, "V14", at,
        {use == nullptr ? std::string("no operand hyper") : range_label(step_.program, use->range),
         "R hyper=hyper, the host's input"});
  }

  std::optional<Violation> visit(At at, const Call& call, const Instruction& instruction) {
    switch (instruction.op) {
      case Op::kZero:
        set(instruction.find(Role::kY), {Scalar::kZero});
        return std::nullopt;
      case Op::kCount:
        tokens_ = instruction.find(Role::kY);
        set(tokens_, {Scalar::kTokens});
        return std::nullopt;
      case Op::kInverse:
        set(instruction.find(Role::kY), {Scalar::kInverse});
        return require("V14", at, instruction, Role::kX, {Scalar::kTokens, tokens_over_});
      case Op::kNormSquare:
        return add_to_norm(at, instruction);
      case Op::kAllReduce:
        return reduce(at, instruction);
      case Op::kClip:
        return clip(at, instruction);
      case Op::kOptStep:
        if (auto found = require_hyper(at, instruction)) return found;
        return require("V14", at, instruction, Role::kCoefficient, {Scalar::kCoefficient});
      default:
        break;
    }
    if (instruction.part == Part::kHead || instruction.part == Part::kHeadLoss)
      return run_head(at, call, instruction);
    return overwrite(at, instruction);
  }

  std::optional<Violation> overwrite(At at, const Instruction& instruction) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      if (!instruction.uses[u].writes()) continue;
      const AtomSpan span = step_.atoms_of(at, u);
      for (int atom = span.begin; atom < span.end; ++atom) value(atom) = {};
    }
    return std::nullopt;
  }

  std::optional<Violation> run_head(At at, const Call& call, const Instruction& instruction) {
    if (is_backward(instruction.op)) {
      auto found = require("V14", at, instruction, Role::kScale, {Scalar::kInverse});
      if (found) return found;
    }
    const bool is_first = num_losses_ == 0;
    auto found =
        require("V14", at, instruction, Role::kLoss, {is_first ? Scalar::kZero : Scalar::kLoss});
    if (found) return found;
    loss_ = instruction.find(Role::kLoss);
    if (loss_->access != Access::kAccumulate) {
      return violation(step_.program, "V14", at, Role::kLoss, loss_->range,
                       {fmt::format("with access {}", access_name(loss_->access)),
                        "A: a sum over micro-batches"});
    }
    const std::size_t turn = static_cast<std::size_t>(num_losses_) /
                             static_cast<std::size_t>(std::max(1, step_.wiring.num_head_chunks()));
    if (turn >= loss_order_.size() || loss_order_[turn] != call.micro_batch) {
      return violation(step_.program, "V17", at, Role::kLoss, loss_->range,
                       {fmt::format("micro-batch {} added as number {}", call.micro_batch, turn),
                        "the order of the schedule"});
    }
    ++num_losses_;
    const Use loss = *loss_;
    if (auto overwritten = overwrite(at, instruction)) return overwritten;
    set(&loss, {Scalar::kLoss});
    return std::nullopt;
  }

  std::optional<Violation> add_to_norm(At at, const Instruction& instruction) {
    auto found = require("V15", at, instruction, Role::kNormSquare, {Scalar::kNorm}, true);
    if (found) return found;
    const Use* norm = instruction.find(Role::kNormSquare);
    if (norm->access != Access::kAccumulate) {
      return violation(
          step_.program, "V15", at, Role::kNormSquare, norm->range,
          {fmt::format("with access {}", access_name(norm->access)), "A: a sum over parameters"});
    }
    set(norm, {Scalar::kNorm});
    return std::nullopt;
  }

  std::optional<Violation> reduce(At at, const Instruction& instruction) {
    const Use* data = instruction.find(Role::kData);
    if (data == nullptr)
      return violation(step_.program, "V6", at, {"no operand data", "the data to sum"});
    // No sum: no bit of any that is due.
    const bool is_sum_of_all = instruction.comm && !instruction.comm->is_max;
    const Groups over = is_sum_of_all ? group_bit(instruction.comm->group) : 0;
    const bool is_scalar = step_.is_kind(*data, MemoryKind::kWorkspace);
    if (!is_scalar) return std::nullopt;
    const AtomSpan span = step_.atoms.of(data->range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      Summed& held = value(atom);
      const bool is_loss = loss_range_ && data->range.buffer == loss_range_->buffer;
      const bool is_incomplete = is_loss && num_losses_ != num_losses_due_;
      const bool is_sum = (due_groups(held) & over) != 0 && (held.over & over) == 0;
      if (is_sum && !is_incomplete) {
        held.over |= over;
        if (is_loss) held.scalar = Scalar::kLoss;  // of ranks that have one
        continue;
      }
      return violation(
          step_.program, held.scalar == Scalar::kNorm ? "V15" : "V14", at, Role::kData,
          step_.atoms.range_of(atom),
          {is_incomplete
               ? fmt::format("holding the loss of {} of {} parts", num_losses_, num_losses_due_)
               : fmt::format("holding {}", summed_name(held)),
           fmt::format(
               "one sum over each of {} for the token count, {} for the loss and {} for the "
               "norm",
               groups_text(tokens_over_), groups_text(loss_over_), groups_text(norm_over_))});
    }
    return std::nullopt;
  }

  /// Communicators over which a scalar may be summed; zero may become any of them.
  [[nodiscard]] Groups due_groups(const Summed& held) const {
    switch (held.scalar) {
      case Scalar::kTokens:
        return tokens_over_;
      case Scalar::kLoss:
        return loss_over_;
      case Scalar::kNorm:
        return norm_over_;
      case Scalar::kZero:
        return tokens_over_ | loss_over_ | norm_over_;
      default:
        return 0;
    }
  }

  std::optional<Violation> clip(At at, const Instruction& instruction) {
    auto found =
        require("V15", at, instruction, Role::kNormSquare, {Scalar::kNorm, norm_over_}, true);
    if (!found) found = require("V14", at, instruction, Role::kLoss, {Scalar::kLoss, loss_over_});
    if (!found) found = require_hyper(at, instruction);
    set(instruction.find(Role::kCoefficient), {Scalar::kCoefficient});
    return found;
  }

  /// The host reads the step's loss and token count.
  std::optional<Violation> check_end() {
    if (!has_loss(step_.program.kind)) return std::nullopt;
    const std::optional<Range> tokens =
        tokens_ == nullptr ? std::nullopt : std::optional(tokens_->range);
    for (const auto& [range, due] : {std::pair(tokens, Summed{Scalar::kTokens, tokens_over_}),
                                     std::pair(loss_range_, Summed{Scalar::kLoss, loss_over_})}) {
      const Summed held = range ? value(step_.atoms.of(*range).begin) : Summed{};
      if (held == due) continue;
      return violation(
          step_.program, "V14",
          {fmt::format("{} holding {} at the end of the step",
                       range ? range_label(step_.program, *range) : std::string("no COUNT"),
                       summed_name(held)),
           summed_name(due)});
    }
    return std::nullopt;
  }

  const StepView& step_;
  Groups tokens_over_ = 0, loss_over_ = 0, norm_over_ = 0;
  int num_losses_due_ = 0;  ///< heads, or chunks of heads, that this rank runs
  std::vector<Summed> values_;
  const Use* tokens_ = nullptr;
  const Use* loss_ = nullptr;
  std::optional<Range> loss_range_;  ///< where the host reads it
  int num_losses_ = 0;
  std::vector<int> loss_order_;  ///< micro-batches as the schedule runs their heads here
};

}  // namespace

std::optional<Violation> check_scalars(const StepView& step) {
  return ScalarCheck(step).run();
}

}  // namespace trireme
