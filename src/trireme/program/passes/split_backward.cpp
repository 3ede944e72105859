// The backward pass in two halves: gradients of inputs now, gradients of weights later.
#include "trireme/program/passes/split_backward.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "trireme/program/steps.h"

namespace trireme {
namespace {

bool reads(const Instruction& instruction, BufferId buffer) {
  return std::any_of(instruction.uses.begin(), instruction.uses.end(), [buffer](const Use& use) {
    return use.reads() && use.range.buffer == buffer;
  });
}

bool writes(const Instruction& instruction, BufferId buffer) {
  return std::any_of(instruction.uses.begin(), instruction.uses.end(), [buffer](const Use& use) {
    return use.writes() && use.range.buffer == buffer;
  });
}

class BackwardSplit {
 public:
  BackwardSplit(Program& program, const std::vector<Instruction>& all)
      : program_(program), all_(all), is_weight_(all.size(), false) {
    for (std::size_t i = all.size(); i-- > 0;) is_weight_[i] = serves_weights_alone(i);
  }

  BackwardHalves run() {
    BackwardHalves halves;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      Instruction instruction = all_[i];
      if (!is_weight_[i]) {
        halves.input.push_back(std::move(instruction));
        continue;
      }
      for (Use& use : instruction.uses) {
        if (use.access == Access::kRead && is_changed_after(i, use.range.buffer))
          halves.input.push_back(keep(instruction, use));
      }
      halves.weight.push_back(std::move(instruction));
    }
    return halves;
  }

 private:
  /// BWD_W, or a gather whose result nothing but BWD_W reads. Not a recomputation: what it makes is
  /// no larger than what it would have to keep.
  [[nodiscard]] bool serves_weights_alone(std::size_t i) const {
    if (all_[i].op == Op::kBackwardWeight) return true;
    if (all_[i].op != Op::kAllGather) return false;
    const BufferId gathered = all_[i].find(Role::kData)->range.buffer;
    for (std::size_t j = i + 1; j < all_.size(); ++j) {
      if (reads(all_[j], gathered) && !is_weight_[j]) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_changed_after(std::size_t i, BufferId buffer) const {
    for (std::size_t j = i + 1; j < all_.size(); ++j) {
      if (!is_weight_[j] && writes(all_[j], buffer)) return true;
    }
    return false;
  }

  /// Copies an operand aside and lets the instruction read the copy.
  Instruction keep(const Instruction& reader, Use& use) {
    Buffer copy = program_.buffer(use.range.buffer);
    copy.name = fmt::format("{}@L{}.{}", copy.name, reader.layer, part_name(reader.part));
    const BufferId id = program_.add_buffer(std::move(copy));
    const Range kept{id, use.range.offset, use.range.bytes};
    Instruction instruction =
        make(Op::kCopy, {{Role::kX, Access::kRead, use.range}, {Role::kY, Access::kWrite, kept}});
    instruction.stage = reader.stage;
    use.range = kept;
    return instruction;
  }

  Program& program_;
  const std::vector<Instruction>& all_;
  std::vector<bool> is_weight_;
};

}  // namespace

BackwardHalves split_backward(Program& program, const std::vector<Instruction>& backward) {
  return BackwardSplit(program, backward).run();
}

}  // namespace trireme
