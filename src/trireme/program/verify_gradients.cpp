// V10, V15 and V17 of one rank: abstract values of gradient bytes. A byte's value is the set of
// (micro-batch, copy) contributions that it sums, and the groups of ranks over which it is summed.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// Contributions of one copy come in the order of the schedule (V17), so their number describes the
/// set.
using Contributions = int;

constexpr int kAsParameter =
    0;  ///< the copy of every untied parameter, and a tied table's as embedding
constexpr int kAsHead = 1;

struct GradientAtom {
  int row = -1;  ///< of the parameter table; -1: padding
  std::array<Contributions, 2> copies{};
  Groups summed = 0;
  bool is_garbage = false;  ///< outside this rank's shard, or gone into it
  bool is_zeroed = false;
  std::int8_t num_in_norm = 0;
};

class GradientCheck {
 public:
  explicit GradientCheck(const StepView& step)
      : step_(step), wiring_(step.wiring), atoms_(static_cast<std::size_t>(step.atoms.size())) {
    find_orders();
    find_due_groups();
    for (std::size_t row = 0; row < step.program.parameters.size(); ++row) {
      const ParameterSlot& slot = step.program.parameters[row];
      if (slot.head_gradient) own(step.atoms.of(*slot.head_gradient), row);
      if (slot.gradient.buffer < 0) continue;
      if (const auto kept = kept_shard(row)) {
        if (*kept) own(step.atoms.of(**kept), row);
      } else {
        own(step.atoms.of(slot.gradient), row);
      }
    }
  }

  std::optional<Violation> run() {
    return step_.find_first([this](At at, const Call& call, const Instruction& instruction) {
      return visit(at, call, instruction);
    });
  }

 private:
  /// Over which groups each gradient is summed, from the parts that contribute to it and the ranks
  /// that run them.
  void find_due_groups() {
    const Layout& layout = step_.program.request.layout;
    due_groups_.assign(step_.program.parameters.size(), replica_groups());
    std::vector<std::set<std::set<int>>> ranks(due_groups_.size());  // of the stages of each row
    for (int number = 0; number < wiring_.size(); ++number) {
      const WiredPart& part = wiring_.part(number);
      const bool is_own_heads = part.part == Part::kRope;
      const bool is_own_tokens = is_norm(part.part) && wiring_.model().is_sequence_parallel();
      for (const ParameterUse& gradient : part.gradients) {
        const auto row = static_cast<std::size_t>(gradient.row);
        if (layout.tp > 1 && (is_own_heads || is_own_tokens)) due_groups_[row] |= group_bit("tp");
        ranks[row].insert(ranks_of_stage(part.stage));
      }
    }
    for (std::size_t row = 0; row < ranks.size(); ++row) {
      if (ranks[row].size() > 1) due_groups_[row] |= group_bit(kTiedGroup);
      const bool is_mirrored = std::any_of(ranks[row].begin(), ranks[row].end(),
                                           [](const auto& holders) { return holders.size() > 1; });
      if (is_mirrored) due_groups_[row] |= group_bit(kMirrorGroup);
    }
  }
  /// Over which what all replicas have is summed.
  [[nodiscard]] Groups replica_groups() const {
    return group_bit(step_.replicas.shard_group) | group_bit(step_.replicas.copy_group);
  }
  [[nodiscard]] std::set<int> ranks_of_stage(int stage) const {
    const Pipeline& pipeline = wiring_.model().pipeline();
    std::set<int> ranks;
    for (int i = 0; i < step_.program.num_micro_batches; ++i)
      ranks.insert(pipeline.rank_of(stage, i));
    return ranks;
  }

  /// The micro-batches of each stage in the order in which this rank computes its gradients.
  void find_orders() {
    orders_.resize(static_cast<std::size_t>(step_.model().pipeline().num_stages()));
    for (const int stage : step_.model().stages()) {
      orders_[static_cast<std::size_t>(stage)] = {
          .of_inputs = step_.micro_batches(stage, makes_input_gradient),
          .of_weights = step_.micro_batches(stage, makes_weight_gradient)};
    }
  }
  /// Of a row whose bucket is reduced at once: where this rank keeps its shard of the gradient,
  /// nothing in it if none of the row lies there. Nothing for other rows.
  [[nodiscard]] std::optional<std::optional<Range>> kept_shard(std::size_t row) const {
    const auto& part = step_.kept_gradients[step_.root_of_row(row)];
    if (!part) return std::nullopt;
    return range_in(step_.program, *part, step_.elems_of(row));
  }

  struct StageOrders {
    std::vector<int> of_inputs;
    std::vector<int> of_weights;
  };

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
        if (step_.moves_activations(instruction)) return std::nullopt;
        return is_into_kept_shard(instruction) ? scatter_at_once(place, instruction)
                                               : scatter(place, instruction);
      default:
        break;
    }
    const Use* first = nullptr;
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (!use.writes() || !step_.has_gradients(use)) continue;
      if (first == nullptr) first = &use;
      const bool has_one_mode = is_norm(instruction.part) || instruction.part == Part::kRope;
      if (has_one_mode && use.access != first->access)
        return fault("V4", place, use, -1, "in another mode", "one mode for the part's gradients");
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
    if (instruction.op == Op::kAllReduce) {
      if (instruction.comm && instruction.comm->is_max)
        return fault("V10", place, use, -1, "reduced to its maximum", "a sum");
      return reduce(place, use, span, instruction.comm ? instruction.comm->group : "");
    }
    if (!is_backward(instruction.op))
      return fault("V10", place, use, -1, "written", "gradients from backward parts only");
    return contribute(place, call, instruction, u);
  }

  // Contributions
  // ----------------------------------------------------------------------------------------

  std::optional<Violation> contribute(At place, const Call& call, const Instruction& instruction,
                                      std::size_t u) {
    const Use& use = instruction.uses[u];
    const int number = wiring_.number(instruction);
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
      if (auto found = add_one(place, instruction, use, atom,
                               {due->is_head_copy ? kAsHead : kAsParameter, call.micro_batch}))
        return found;
    }
    return std::nullopt;
  }

  struct Contribution {
    int copy = 0;
    int micro_batch = 0;
  };
  std::optional<Violation> add_one(At place, const Instruction& instruction, const Use& use,
                                   int atom, Contribution contribution) {
    GradientAtom& value = at(atom);
    if (use.access == Access::kWrite && is_reused(use)) {
      if (value.row >= 0 && !value.is_garbage)
        return fault("V10", place, use, atom, "written over what is not reduced", "its reduction");
      value = {.row = row_of(instruction, use), .copies = reduced_[row_of(instruction, use)]};
    } else if (is_reused(use) && (value.is_garbage || value.row != row_of(instruction, use))) {
      return fault("V10", place, use, atom, "added to another value", "mode W first");
    }
    if (value.summed != 0) {
      return fault("V10", place, use, atom,
                   fmt::format("already reduced over {}", groups_text(value.summed)),
                   "all contributions before the reduction");
    }
    if (use.access == Access::kWrite) {
      if (!is_reused(use) && value.copies != std::array<Contributions, 2>{}) {
        return fault("V10", place, use, atom, "written over earlier contributions",
                     "mode A for all but the first");
      }
      value.is_zeroed = false;
    } else if (value.is_zeroed) {
      return fault("V4", place, use, atom, "added to zeros", "mode W for the first contribution");
    }
    const StageOrders& orders =
        orders_[static_cast<std::size_t>(wiring_.part(wiring_.number(instruction)).stage)];
    const std::vector<int>& order =
        instruction.op == Op::kBackwardWeight ? orders.of_weights : orders.of_inputs;
    const int chunks = instruction.chunk < 0 ? 1 : wiring_.num_head_chunks();
    Contributions& sum = value.copies[static_cast<std::size_t>(contribution.copy)];
    const auto turn = static_cast<std::size_t>(sum / chunks);
    const bool is_next = turn < order.size() && order[turn] == contribution.micro_batch &&
                         (chunks == 1 || sum % chunks == instruction.chunk);
    if (is_next) {
      ++sum;
      return std::nullopt;
    }
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(turn, order.size()));
    if (std::find(order.begin(), end, contribution.micro_batch) != end) {
      return fault("V10", place, use, atom,
                   fmt::format("a second contribution of micro-batch {}", contribution.micro_batch),
                   "one");
    }
    return fault("V17", place, use, atom,
                 fmt::format("micro-batch {} added as number {}", contribution.micro_batch, turn),
                 "the order of the schedule");
  }

  /// The operand is in a bucket that is reduced at once, whose memory other buckets use too.
  [[nodiscard]] bool is_reused(const Use& use) const {
    return !step_.is_kind(use, MemoryKind::kGradients);
  }
  /// The row whose gradient the part writes.
  [[nodiscard]] int row_of(const Instruction& instruction, const Use& use) const {
    for (const ParameterUse& gradient : wiring_.part(wiring_.number(instruction)).gradients) {
      if (gradient.role == use.role) return gradient.row;
    }
    return -1;
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
      if (value.summed != 0 || added.summed != 0) {
        return fault("V10", place, *y, atom, "already reduced",
                     "the sum of both copies before the reduction");
      }
      for (std::size_t copy = 0; copy < value.copies.size(); ++copy) {
        if (added.copies[copy] == 0) continue;
        if (value.copies[copy] > 0) {
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

  std::optional<Violation> reduce(At place, const Use& use, AtomSpan span, std::string_view group) {
    const Groups bit = group_bit(group);
    for (int atom = span.begin; atom < span.end; ++atom) {
      GradientAtom& value = at(atom);
      const Groups due =
          value.row < 0 ? replica_groups() : due_groups_[static_cast<std::size_t>(value.row)];
      if ((due & bit) == 0) {
        return fault("V10", place, use, atom, fmt::format("summed over {}", group),
                     fmt::format("{} for this gradient", groups_text(due)));
      }
      const bool is_late = step_.replicas.is_sharded() && value.summed != 0 &&
                           (bit & replica_groups()) == 0 && (value.summed & replica_groups()) != 0;
      if (value.is_garbage || is_late) {
        return fault("V10", place, use, atom,
                     value.is_garbage ? "summed outside this rank's shard"
                                      : fmt::format("summed over {} after the scatter", group),
                     "sums over other groups before the scatter over dp");
      }
      if ((value.summed & bit) != 0) {
        return fault("V10", place, use, atom, fmt::format("already reduced over {}", group),
                     "one reduction");
      }
      value.summed |= bit;
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
                   own ? range_label(step_.program, *own) : "data that divides by the shards");
    }
    const std::string group = instruction.comm ? instruction.comm->group : "";
    if (group != step_.replicas.shard_group) {
      return fault("V10", place, *data, -1, fmt::format("scattered over '{}'", group),
                   std::string(step_.replicas.shard_group));
    }
    if (auto found = reduce(place, *data, step_.atoms.of(data->range), group)) return found;
    const AtomSpan whole = step_.atoms.of(data->range), kept = step_.atoms.of(shard->range);
    for (int atom = whole.begin; atom < whole.end; ++atom) {
      if (atom < kept.begin || atom >= kept.end) at(atom).is_garbage = true;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_into_kept_shard(const Instruction& instruction) const {
    const Use* shard = instruction.find(Role::kShard);
    const Use* data = instruction.find(Role::kData);
    return shard != nullptr && data != nullptr && is_reused(*data) &&
           step_.is_kind(*shard, MemoryKind::kGradients);
  }

  /// A bucket of one micro-batch is added to the shard that this rank keeps.
  std::optional<Violation> scatter_at_once(At place, const Instruction& instruction) {
    const Use& data = *instruction.find(Role::kData);
    const Use& shard = *instruction.find(Role::kShard);
    const int root = step_.root_of_kept(shard.range.buffer);
    if (root < 0 || shard.range != step_.program.whole(shard.range.buffer))
      return fault("V10", place, shard, -1, "as shard", "all of a root's shard");
    const std::string group = instruction.comm ? instruction.comm->group : "";
    if (group != step_.replicas.shard_group) {
      return fault("V10", place, data, -1, fmt::format("scattered over '{}'", group),
                   std::string(step_.replicas.shard_group));
    }
    for (std::size_t row = 0; row < step_.program.parameters.size(); ++row) {
      const bool is_frozen = step_.program.parameters[row].gradient.buffer < 0;
      if (step_.roots.rows[row].root != root || is_frozen) continue;
      if (auto found = scatter_row(place, data, shard, row)) return found;
    }
    return std::nullopt;
  }

  std::optional<Violation> scatter_row(At place, const Use& data, const Use& shard,
                                       std::size_t row) {
    const Range& whole = step_.program.parameters[row].gradient;
    const std::int64_t root_elems =
        step_.roots.elems[static_cast<std::size_t>(step_.roots.rows[row].root)];
    const bool is_all = data.range.offset == 0 && whole.buffer == data.range.buffer &&
                        num_elems(step_.program, data.range) == root_elems;
    if (!is_all)
      return fault("V10", place, data, -1, "scattered", "all of the root whose shard it is");
    const Contributions before = reduced_[narrow<int>(row)][kAsParameter];
    const bool is_chunked = narrow<std::int64_t>(row) == wiring_.model().table().head_index() &&
                            wiring_.num_head_chunks() > 0;
    GradientAtom sum{.row = narrow<int>(row)};
    sum.copies[kAsParameter] = before + (is_chunked ? wiring_.num_head_chunks() : 1);
    sum.summed = due_groups_[row] & ~replica_groups();
    const AtomSpan span = step_.atoms.covering(whole);
    for (int atom = span.begin; atom < span.end; ++atom) {
      GradientAtom& value = at(atom);
      if (value.row != sum.row || value.is_garbage || value.copies != sum.copies) {
        return fault("V10", place, data, atom, "without this micro-batch's gradient",
                     fmt::format("the gradient of parameter {}", row));
      }
      if (value.summed != sum.summed) {
        return fault("V10", place, data, atom,
                     fmt::format("reduced over {}", groups_text(value.summed)),
                     fmt::format("a reduction over {} before", groups_text(sum.summed)));
      }
      value.is_garbage = true;
    }
    const Groups bit = group_bit(step_.replicas.shard_group);
    const GradientAtom old = {
        .row = sum.row, .copies = {before, 0}, .summed = before == 0 ? 0 : sum.summed | bit};
    if (const auto kept = *kept_shard(row)) {
      const AtomSpan own = step_.atoms.of(*kept);
      for (int atom = own.begin; atom < own.end; ++atom) {
        GradientAtom& value = at(atom);
        const bool is_right = value.copies == old.copies && value.summed == old.summed &&
                              shard.access == (before == 0 ? Access::kWrite : Access::kAccumulate);
        if (!is_right)
          return fault("V10", place, shard, atom, "with other contributions",
                       "a write of the first micro-batch, then sums");
        value.copies = sum.copies;
        value.summed = sum.summed | bit;
      }
    }
    reduced_[narrow<int>(row)] = sum.copies;
    return std::nullopt;
  }

  // Uses
  // -------------------------------------------------------------------------------------------------

  /// Contributions that this rank owes to a copy of a row.
  [[nodiscard]] int num_due(int row, int copy) const {
    const LocalModel& model = wiring_.model();
    const auto r = static_cast<std::size_t>(row);
    const bool is_head = row == narrow<int>(model.table().head_index());
    const bool is_tied = step_.program.request.spec.tied && is_head;
    if (copy == kAsHead && !is_tied) return 0;
    const std::vector<int> stages = model.stages_of_row(r);
    const int stage = copy == kAsHead ? stages.back() : stages.front();
    const StageOrders& orders = orders_[static_cast<std::size_t>(stage)];
    const bool is_chunked =
        is_head && (copy == kAsHead) == is_tied && wiring_.num_head_chunks() > 0;
    return narrow<int>(orders.of_weights.size()) * (is_chunked ? wiring_.num_head_chunks() : 1);
  }

  /// What keeps a gradient byte from being complete; nothing if it is.
  [[nodiscard]] std::optional<Finding> incompleteness(const GradientAtom& value) const {
    for (const int copy : {kAsParameter, kAsHead}) {
      const int count = value.copies[static_cast<std::size_t>(copy)];
      const int due = num_due(value.row, copy);
      if (count == due) continue;
      return Finding{fmt::format("{} contributions{}", count, copy == kAsHead ? " as head" : ""),
                     fmt::format("{}, one of each micro-batch", due)};
    }
    if (value.is_garbage) return Finding{"outside this rank's shard", "the reduced shard"};
    const Groups due = due_groups_[static_cast<std::size_t>(value.row)];
    if (value.summed != due) {
      return Finding{fmt::format("reduced over {}", groups_text(value.summed)),
                     fmt::format("a reduction over {}", groups_text(due))};
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
    for (std::size_t row = 0; row < step_.program.parameters.size(); ++row) {
      const ParameterSlot& slot = step_.program.parameters[row];
      if (slot.gradient.buffer < 0) continue;
      const int due = step_.model().counts_in_norm(row) ? 1 : 0;
      const auto kept = kept_shard(row);
      if (kept && !*kept) continue;
      const AtomSpan span = step_.atoms.of(kept ? **kept : slot.gradient);
      for (int atom = span.begin; atom < span.end; ++atom) {
        if (at(atom).num_in_norm == due || at(atom).is_garbage) continue;
        return violation(step_.program, "V15", place,
                         {fmt::format("{}, of parameter {}, {} in the norm",
                                      range_label(step_.program, step_.atoms.range_of(atom)),
                                      at(atom).row, due == 1 ? "not" : "also"),
                          "every complete gradient in the norm of one rank of those that hold it"});
      }
    }
    return std::nullopt;
  }

  const StepView& step_;
  const ModelWiring& wiring_;
  std::vector<GradientAtom> atoms_;
  std::vector<StageOrders> orders_;  ///< by stage
  std::vector<Groups> due_groups_;   ///< by row
  /// By row: contributions that have gone into the kept shards.
  std::map<int, std::array<Contributions, 2>> reduced_;
};

}  // namespace

std::optional<Violation> check_gradients(const StepView& step) {
  if (step.program.kind != ProgramKind::kTrain) return std::nullopt;
  return GradientCheck(step).run();
}

}  // namespace trireme
