// Sequence parallelism: between the matrix products of a layer each tp rank has its share of the
// tokens. Sums over tp become reduce-scatters, and products gather their inputs.
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

/// Parts that work on each token by itself: they run on the rank's own tokens.
bool is_tokenwise(Part part) {
  return is_norm(part) || part == Part::kDropout || part == Part::kRowBias ||
         part == Part::kPosition || part == Part::kStageOut;
}

class SequenceParallelPass {
 public:
  SequenceParallelPass(Program& program, const LocalModel& model)
      : program_(program), tp_(program.request.layout.tp) {
    const Pipeline& pipeline = model.pipeline();
    for (const int stage : model.stages()) {
      for (const std::string& name :
           {stage_in_name(pipeline, stage), stage_out_name(pipeline, stage),
            stream_gradient_name(pipeline, stage)}) {
        if (const auto id = program.find_buffer(name)) shrink(*id);
      }
    }
  }

  std::vector<Instruction> apply(std::vector<Instruction> body) {
    out_.clear();
    for (std::size_t i = 0; i < body.size(); ++i) {
      if (body[i].op == Op::kBackwardInput) gather_for_weight_half(body, i);
      add(std::move(body[i]));
    }
    return std::move(out_);
  }

 private:
  void add(Instruction instruction) {
    if (is_tokenwise(instruction.part)) {
      for (Use& use : instruction.uses) use.range = own_tokens(use);
    } else if (instruction.op == Op::kAllReduce) {
      if (is_sum_of_tokens()) return scatter(instruction);
    } else {
      gather_operands(instruction);
    }
    out_.push_back(std::move(instruction));
  }

  /// The sum behind a product or the embedding; not that of a head's maxima and exponentials.
  [[nodiscard]] bool is_sum_of_tokens() const {
    return out_.back().part != Part::kHeadLogits && out_.back().part != Part::kHeadSums;
  }

  [[nodiscard]] bool is_activation(const Use& use) const {
    return program_.buffer(use.range.buffer).kind == MemoryKind::kActivations &&
           use.role != Role::kSamples;
  }

  void shrink(BufferId id) {
    if (!own_.insert(id).second) return;
    Buffer& buffer = program_.buffers.at(static_cast<std::size_t>(id));
    buffer.bytes = div_exact(buffer.bytes, tp_);
  }

  /// The operand's share: what a reduce-scatter has left, or a buffer that holds no more than that.
  Range own_tokens(const Use& use) {
    if (!is_activation(use)) return use.range;
    const auto scattered = scattered_.find(use.range.buffer);
    if (scattered != scattered_.end()) return program_.whole(scattered->second);
    shrink(use.range.buffer);
    return program_.whole(use.range.buffer);
  }

  BufferId add_buffer(BufferId like, const char* suffix, std::int64_t bytes) {
    Buffer buffer = program_.buffer(like);
    buffer.name += fmt::format(".{}{}", suffix, num_buffers_++);
    buffer.bytes = bytes;
    return program_.add_buffer(std::move(buffer));
  }

  void scatter(const Instruction& sum) {
    const Range full = sum.find(Role::kData)->range;
    const BufferId own = add_buffer(full.buffer, "own", div_exact(full.bytes, tp_));
    scattered_[full.buffer] = own;
    out_.push_back(reduce_scatter(program_, full, program_.whole(own), axis_name(Axis::kTp)));
  }

  /// All tokens of a buffer of which the rank has its share.
  BufferId gather(BufferId own) {
    const Range share = program_.whole(own);
    const BufferId full = add_buffer(own, "all", share.bytes * tp_);
    out_.push_back(all_gather(program_, share, program_.whole(full), axis_name(Axis::kTp)));
    return full;
  }

  /// A layer keeps the share of a product's input alone: the weight half needs all of it again. It
  /// is gathered while the input half runs, so that the scatter of what that makes overlaps the
  /// weight half.
  void gather_for_weight_half(const std::vector<Instruction>& body, std::size_t input_half) {
    const Instruction& input = body[input_half];
    for (std::size_t i = input_half + 1; i < body.size(); ++i) {
      const bool is_other_half = body[i].op == Op::kBackwardWeight && body[i].part == input.part &&
                                 body[i].layer == input.layer;
      if (!is_other_half) continue;
      const BufferId own = body[i].find(Role::kX)->range.buffer;
      if (own_.contains(own)) gathered_[own] = gather(own);
      return;
    }
  }

  /// Products, head and embedding read all tokens. Both halves of a backward product read one
  /// gathered gradient.
  void gather_operands(Instruction& instruction) {
    for (Use& use : instruction.uses) {
      const BufferId own = use.range.buffer;
      if (use.access != Access::kRead || !is_activation(use) || !own_.contains(own)) continue;
      if (is_first_reader(instruction)) gathered_[own] = gather(own);
      use.range.buffer = gathered_.at(own);
    }
  }

  [[nodiscard]] static bool is_first_reader(const Instruction& instruction) {
    if (instruction.chunk >= 0)
      return instruction.part == Part::kHeadLogits && instruction.chunk == 0;
    return instruction.op != Op::kBackwardWeight;
  }

  Program& program_;
  std::int64_t tp_;
  int num_buffers_ = 0;
  std::vector<Instruction> out_;
  std::set<BufferId> own_;                  ///< buffers of the rank's own tokens
  std::map<BufferId, BufferId> scattered_;  ///< by summed buffer: the share of its sum
  std::map<BufferId, BufferId> gathered_;   ///< by share: the latest gathered copy
};

}  // namespace

void sequence_parallel(Program& program, const LocalModel& model) {
  SequenceParallelPass pass(program, model);
  for (Template& item : program.templates) {
    std::vector<Instruction> body = std::move(item.instructions);
    item.instructions = pass.apply(std::move(body));
  }
}

}  // namespace trireme
