// V11 and V12: parameters keep their version until one update writes each of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

class UpdateCheck {
 public:
  explicit UpdateCheck(const StepView& step)
      : step_(step),
        rows_(static_cast<std::size_t>(step.atoms.size()), -1),
        num_updates_(rows_.size(), 0) {
    for (std::size_t row = 0; row < step.program.parameters.size(); ++row) {
      if (!step.program.holds(row)) continue;
      const auto kept = range_in(step.program, params_of(row), step.elems_of(row));
      if (!kept) continue;
      const AtomSpan span = step.atoms.covering(*kept);
      for (int atom = span.begin; atom < span.end; ++atom)
        rows_[static_cast<std::size_t>(atom)] = static_cast<int>(row);
    }
    find_gathered();
  }

  std::optional<Violation> run() {
    auto found = step_.find_first([this](At at, const Call&, const Instruction& instruction) {
      if (instruction.op == Op::kOptStep) return update(at, instruction);
      if (instruction.op == Op::kAllGather && !step_.moves_activations(instruction))
        return gather(at, instruction);
      return check_uses(at, instruction);
    });
    return found ? found : find_stale();
  }

 private:
  /// Where this rank keeps parameters of the row's root.
  [[nodiscard]] const RootPart& params_of(std::size_t row) const {
    return step_.params[step_.root_of_row(row)];
  }
  /// Buffers that have all of a root for a while (ZeRO-3).
  void find_gathered() {
    is_gathered_.assign(step_.program.buffers.size(), false);
    for (const Template& item : step_.program.templates) {
      for (const Instruction& instruction : item.instructions) {
        const Use* shard = instruction.find(Role::kShard);
        if (instruction.op != Op::kAllGather || shard == nullptr) continue;
        const Use* data = instruction.find(Role::kData);
        if (data == nullptr || !step_.is_kind(*shard, MemoryKind::kParameters)) continue;
        is_gathered_[static_cast<std::size_t>(data->range.buffer)] =
            data->range.buffer != shard->range.buffer;
      }
    }
  }

  std::int8_t& updates(int atom) { return num_updates_[static_cast<std::size_t>(atom)]; }
  [[nodiscard]] bool is_trainable(int row) const {
    return row >= 0 && step_.program.kind == ProgramKind::kTrain &&
           step_.model().row(static_cast<std::size_t>(row)).trainable;
  }
  [[nodiscard]] int row(int atom) const { return rows_[static_cast<std::size_t>(atom)]; }

  Violation fault(std::string_view rule, At at, const Use& use, std::string found,
                  std::string due) const {
    return violation(step_.program, rule, at, use.role, use.range,
                     {std::move(found), std::move(due)});
  }
  Violation missing(At at, const char* operands) const {
    return violation(step_.program, "V12", at, {"an operand missing", operands});
  }

  /// Everything but the update reads the step's parameters, and writes none.
  std::optional<Violation> check_uses(At at, const Instruction& instruction) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      const MemoryKind kind = step_.buffer_of(use).kind;
      const Content content = step_.buffer_of(use).content;
      const bool is_parameter = kind == MemoryKind::kParameters;
      const bool is_fixed = content == Content::kConstant || content == Content::kInput;
      const bool is_state = is_parameter || is_optimizer_state(kind);
      const bool is_gathered = is_gathered_[static_cast<std::size_t>(use.range.buffer)];
      if (use.writes() && (is_state || is_fixed || is_gathered))
        return fault("V12", at, use, "written", "no write but by the update");
      if (!is_parameter) continue;
      const AtomSpan span = step_.atoms_of(at, u);
      for (int atom = span.begin; atom < span.end; ++atom) {
        if (updates(atom) == 0) continue;
        return fault("V11", at, use, "after its update", "the parameters of the step's start");
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> update(At at, const Instruction& instruction) {
    const Use* parameter = instruction.find(Role::kParameter);
    const Use* gradient = instruction.find(Role::kGradient);
    std::vector<const Use*> state = {instruction.find(Role::kMoment1),
                                     instruction.find(Role::kMoment2)};
    const bool has_master = step_.program.request.has_master();
    if (has_master) state.push_back(instruction.find(Role::kMaster));
    const bool lacks_state = std::find(state.begin(), state.end(), nullptr) != state.end();
    if (parameter == nullptr || gradient == nullptr || lacks_state)
      return missing(at, has_master ? "param, m, v2, grad and master" : "param, m, v2 and grad");
    if (auto found = check_ranges(at, instruction, *parameter, *gradient)) return found;
    for (const Use* use : state) {
      const bool is_master = use->role == Role::kMaster;
      const MemoryKind kind = is_master ? MemoryKind::kMaster : MemoryKind::kMoments;
      if (auto found = check_state(at, *parameter, *use, kind)) return found;
      if (auto found = count(at, *use)) return found;
    }
    return count(at, *parameter);
  }

  /// First element of an operand in its buffer.
  [[nodiscard]] std::int64_t first_elem(const Use& use) const {
    return use.range.offset / dtype_bytes(step_.buffer_of(use).dtype);
  }

  /// Parameter and gradient are the same elements of one row.
  std::optional<Violation> check_ranges(At at, const Instruction& instruction, const Use& parameter,
                                        const Use& gradient) const {
    const AtomSpan span = step_.atoms.of(parameter.range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (row(atom) == instruction.parameter && is_trainable(row(atom))) continue;
      return fault("V12", at, parameter, "not within its row",
                   fmt::format("a range of parameter {}", instruction.parameter));
    }
    const auto row = static_cast<std::size_t>(instruction.parameter);
    const std::int64_t begin = params_of(row).elems.begin + first_elem(parameter);
    const Shard elems{.begin = begin, .end = begin + num_elems(step_.program, parameter.range)};
    const auto& part = step_.reduced[step_.root_of_row(row)];
    const auto due = part ? range_in(step_.program, *part, elems) : std::nullopt;
    if (due && gradient.range == *due) return std::nullopt;
    return fault("V12", at, gradient, "for other elements",
                 due ? range_label(step_.program, *due) : "the reduced gradient");
  }

  /// Moments and masters lie in the order of the parameters that they belong to.
  std::optional<Violation> check_state(At at, const Use& parameter, const Use& use,
                                       MemoryKind kind) {
    const std::int64_t shift = first_elem(parameter) - first_elem(use);
    const std::int64_t count = num_elems(step_.program, parameter.range);
    const auto pair = std::pair(parameter.range.buffer, use.range.buffer);
    const auto [known, is_new] = shifts_.try_emplace(pair, shift);
    const bool is_right = step_.is_kind(use, kind) && use.access == Access::kReadWrite &&
                          known->second == shift && num_elems(step_.program, use.range) == count;
    if (is_right) return std::nullopt;
    return fault("V12", at, use, "for other elements",
                 fmt::format("RW of {} elements of {}, {} before the parameter's place", count,
                             memory_kind_name(kind), known->second));
  }

  std::optional<Violation> count(At at, const Use& use) {
    const AtomSpan span = step_.atoms.of(use.range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (++updates(atom) > 1) return fault("V12", at, use, "updated a second time", "once");
    }
    return std::nullopt;
  }

  std::optional<Violation> gather(At at, const Instruction& instruction) {
    const Use* data = instruction.find(Role::kData);
    const Use* shard = instruction.find(Role::kShard);
    if (data == nullptr || shard == nullptr) return missing(at, "data and shard");
    const bool is_over_shards =
        instruction.comm && instruction.comm->group == step_.replicas.shard_group;
    if (is_gathered_[static_cast<std::size_t>(data->range.buffer)])
      return gather_for_a_while(at, *data, *shard, is_over_shards);
    if (!step_.is_kind(*data, MemoryKind::kParameters) || !is_over_shards)
      return fault("V12", at, *data, "gathered", "parameters, over the ranks of their shards");
    const auto own = step_.own_shard(data->range);
    if (!own || *own != shard->range) {
      return fault("V12", at, *shard, "as shard",
                   own ? range_label(step_.program, *own) : "data that divides by the shards");
    }
    const AtomSpan span = step_.atoms.of(data->range), mine = step_.atoms.of(shard->range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (!is_trainable(row(atom))) continue;
      const bool is_mine = mine.begin <= atom && atom < mine.end;
      if (updates(atom) != (is_mine ? 1 : 0)) {
        return violation(step_.program, "V12", at, Role::kData, step_.atoms.range_of(atom),
                         {fmt::format("updated {} times before the gather", updates(atom)),
                          is_mine ? "once by its owner" : "its owner's update only"});
      }
      updates(atom) = 1;
    }
    return std::nullopt;
  }

  /// ZeRO-3: the parameters of the step's start, all of a root.
  std::optional<Violation> gather_for_a_while(At at, const Use& data, const Use& shard,
                                              bool is_over_shards) {
    const bool is_whole = data.range == step_.program.whole(data.range.buffer) &&
                          shard.range == step_.program.whole(shard.range.buffer);
    if (!is_over_shards || !is_whole || !step_.is_kind(shard, MemoryKind::kParameters))
      return fault("V12", at, data, "gathered",
                   "a root's parameters, over the ranks of its shards");
    const AtomSpan span = step_.atoms.of(shard.range);
    for (int atom = span.begin; atom < span.end; ++atom) {
      if (updates(atom) > 0)
        return fault("V11", at, shard, "after its update", "the parameters of the step's start");
    }
    return std::nullopt;
  }

  std::optional<Violation> find_stale() {
    for (int atom = 0; atom < step_.atoms.size(); ++atom) {
      if (!is_trainable(row(atom)) || updates(atom) == 1) continue;
      return violation(step_.program, "V12",
                       {fmt::format("{}, {}, not updated by the end of the step",
                                    range_label(step_.program, step_.atoms.range_of(atom)),
                                    step_.model().row(static_cast<std::size_t>(row(atom))).name),
                        "one update by OPT_STEP, or by ALL_GATHER from its owner"});
    }
    return std::nullopt;
  }

  const StepView& step_;
  std::vector<int> rows_;                 ///< by atom: row of the parameter table, or -1
  std::vector<std::int8_t> num_updates_;  ///< by atom
  std::vector<bool> is_gathered_;         ///< by buffer
  std::map<std::pair<BufferId, BufferId>, std::int64_t> shifts_;
};

}  // namespace

std::optional<Violation> check_updates(const StepView& step) {
  return UpdateCheck(step).run();
}

}  // namespace trireme
