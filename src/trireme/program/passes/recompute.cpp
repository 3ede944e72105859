// Activation recomputation: none, selective (norm outputs and activation function) or full (all but
// the inputs of layers).
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/errors.h"
#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

class Recomputation {
 public:
  Recomputation(Program& program, const std::vector<Instruction>& body)
      : program_(program), body_(body) {
    while (num_forward_ < body_.size() && !is_backward(body_[num_forward_].op)) ++num_forward_;
    for (std::size_t i = 0; i < num_forward_; ++i) {
      if (body_[i].op == Op::kLoad) continue;
      for (const Use& use : body_[i].uses) {
        if (use.writes() && is_transient(use)) writers_[use.range.buffer].push_back(i);
      }
      if (body_[i].op == Op::kForward && body_[i].layer >= 0) drop_outputs(body_[i]);
      if (body_[i].comm) drop_with_input(body_[i]);
    }
  }

  std::vector<Instruction> run() {
    for (std::size_t i = 0; i < body_.size(); ++i) {
      Instruction copy = body_[i];
      if (i >= num_forward_) {
        for (Use& use : copy.uses) use.range.buffer = available(use.range.buffer);
      }
      out_.push_back(std::move(copy));
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_transient(const Use& use) const {
    return program_.buffer(use.range.buffer).content == Content::kTransient;
  }

  /// Full: a layer keeps the residual stream at its entry and the statistics of its first norm.
  void drop_outputs(const Instruction& instruction) {
    const bool is_full = program_.request.layout.recompute == Recompute::kFull;
    for (const Use& use : instruction.uses) {
      if (!use.writes() || !is_transient(use)) continue;
      const bool is_norm_output = is_norm(instruction.part) && use.role == Role::kY;
      const bool is_layer_input =
          instruction.part == Part::kAttnNorm && (use.role == Role::kH || use.role == Role::kStats);
      if (is_norm_output || instruction.part == Part::kAct || (is_full && !is_layer_input)) {
        dropped_.insert(use.range.buffer);
      }
    }
  }

  /// What a collective makes of a dropped value is dropped too.
  void drop_with_input(const Instruction& collective) {
    bool is_dropped = false;
    for (const Use& use : collective.uses)
      is_dropped = is_dropped || (use.reads() && dropped_.contains(use.range.buffer));
    for (const Use& use : collective.uses) {
      if (is_dropped && use.writes()) dropped_.insert(use.range.buffer);
    }
  }

  /// The buffer that holds the value of `buffer` during the backward pass; recomputes it on first
  /// demand.
  BufferId available(BufferId buffer) {
    if (!dropped_.contains(buffer)) return buffer;
    if (const auto found = again_.find(buffer); found != again_.end()) return found->second;
    for (const std::size_t writer : writers_.at(buffer)) emit_again(body_[writer]);
    return again_.at(buffer);
  }

  void emit_again(const Instruction& forward) {
    Instruction again = forward;
    if (forward.op == Op::kForward) again.op = Op::kRecompute;  // collectives run again as they are
    if (is_norm(forward.part) && can_use_statistics(forward)) again.uses = from_statistics(forward);
    for (Use& use : again.uses) {
      if (!use.writes()) use.range.buffer = available(use.range.buffer);
    }
    for (Use& use : again.uses) {
      if (use.writes() && is_transient(use)) use.range.buffer = renamed(use.range.buffer);
    }
    out_.push_back(std::move(again));
  }

  /// A norm whose input and statistics are kept needs neither its residual addition nor a new
  /// reduction.
  [[nodiscard]] bool can_use_statistics(const Instruction& norm) const {
    return !dropped_.contains(norm.find(Role::kStats)->range.buffer) &&
           !dropped_.contains(input(norm).buffer);
  }
  [[nodiscard]] static Range input(const Instruction& norm) {
    return norm.find(norm.has(Role::kH) ? Role::kH : Role::kX)->range;
  }
  [[nodiscard]] static std::vector<Use> from_statistics(const Instruction& norm) {
    std::vector<Use> uses = {{Role::kH, Access::kRead, input(norm)},
                             {Role::kStats, Access::kRead, norm.find(Role::kStats)->range}};
    for (const Use& use : norm.uses) {
      if (use.role == Role::kWeight || use.role == Role::kBias || use.role == Role::kY)
        uses.push_back(use);
    }
    return uses;
  }

  /// In-place parts (dropout) find the renamed buffer of the part before them.
  BufferId renamed(BufferId buffer) {
    const auto found = again_.find(buffer);
    if (found != again_.end()) return found->second;
    Buffer copy = program_.buffer(buffer);
    copy.name += "'";
    return again_[buffer] = program_.add_buffer(std::move(copy));
  }

  Program& program_;
  const std::vector<Instruction>& body_;
  std::size_t num_forward_ = 0;  ///< instructions before the backward pass
  std::map<BufferId, std::vector<std::size_t>> writers_;
  std::set<BufferId> dropped_;
  std::map<BufferId, BufferId> again_;
  std::vector<Instruction> out_;
};

}  // namespace

void recompute(Program& program) {
  if (program.request.layout.recompute == Recompute::kNone) return;
  for (Template& item : program.templates) {
    const std::vector<Instruction> body = std::move(item.instructions);
    item.instructions = Recomputation(program, body).run();
  }
}

}  // namespace trireme
