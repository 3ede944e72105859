// Tensor parallelism: sums over tp, and what happens once after them.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/program/model_parts.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

/// Takes the operand out; nothing if there is none.
std::optional<Use> taken(Instruction& instruction, Role role) {
  const auto found = std::find_if(instruction.uses.begin(), instruction.uses.end(),
                                  [role](const Use& use) { return use.role == role; });
  if (found == instruction.uses.end()) return std::nullopt;
  const Use use = *found;
  instruction.uses.erase(found);
  return use;
}

class TensorParallelPass {
 public:
  TensorParallelPass(Program& program, const LocalModel& model)
      : program_(program), model_(model) {}

  std::vector<Instruction> apply(std::vector<Instruction> body) {
    for (Instruction& instruction : body) add(std::move(instruction));
    return std::move(out_);
  }

 private:
  void add(Instruction instruction) {
    const bool is_forward = instruction.op == Op::kForward;
    switch (instruction.part) {
      case Part::kProj:
      case Part::kMlpDown:
        if (is_forward) return add_row_parallel(std::move(instruction));
        break;
      case Part::kEmbed:
        if (is_forward) return add_embedding(std::move(instruction));
        break;
      case Part::kQkv:
      case Part::kMlpUp:
        out_.push_back(std::move(instruction));
        if (out_.back().op == Op::kBackwardInput) add_sum(out_.back().find(Role::kDx)->range);
        return;
      case Part::kHead:
        return add_head(instruction);
      case Part::kLogits:
        return add_logits(std::move(instruction));
      default:
        break;
    }
    out_.push_back(std::move(instruction));
  }

  void add_sum(const Range& range) {
    out_.push_back(all_reduce(program_, range, axis_name(Axis::kTp)));
  }

  /// Each rank has its part of the inner features: outputs are summed, then get their bias.
  void add_row_parallel(Instruction product) {
    Instruction row_bias{
        .op = Op::kForward,
        .part = Part::kRowBias,
        .layer = product.layer,
        .stage = product.stage,
        .site = product.part == Part::kProj ? Site::kAttnResidual : Site::kMlpResidual};
    add_summed(std::move(product), Role::kBias, std::move(row_bias));
  }

  /// Each rank has the rows of its vocabulary and zeros for other tokens.
  void add_embedding(Instruction embed) {
    Instruction position{.op = Op::kForward, .part = Part::kPosition, .stage = embed.stage};
    if (const Use* length = embed.find(Role::kLength)) position.uses.push_back(*length);
    add_summed(std::move(embed), Role::kWeight2, std::move(position));
  }

  /// `partial` without operand `late`, its sum, and `after`, which adds the operand to it once.
  void add_summed(Instruction partial, Role late, Instruction after) {
    const std::optional<Use> operand = taken(partial, late);
    const Range y = partial.find(Role::kY)->range;
    out_.push_back(std::move(partial));
    add_sum(y);
    if (!operand) return;
    after.uses.insert(after.uses.begin(), {*operand, {Role::kY, Access::kReadWrite, y}});
    out_.push_back(std::move(after));
  }

  // Head
  // -----------------------------------------------------------------------------------------------

  BufferId scratch(const char* name, std::int64_t elems, DType dtype) {
    return program_.add_buffer({.name = name,
                                .kind = MemoryKind::kActivations,
                                .content = Content::kTransient,
                                .dtype = dtype,
                                .bytes = elems * dtype_bytes(dtype)});
  }

  [[nodiscard]] Range first_elems(BufferId id, std::int64_t elems) const {
    return {id, 0, elems * dtype_bytes(program_.buffer(id).dtype)};
  }

  /// Rows [first, first + num) of an operand of `num_tokens` rows.
  static Use rows(const Use& use, std::int64_t first, std::int64_t num, std::int64_t num_tokens) {
    const std::int64_t row_bytes = use.range.bytes / num_tokens;
    return {use.role,
            use.access,
            {use.range.buffer, use.range.offset + first * row_bytes, num * row_bytes}};
  }

  Instruction& emit(const Instruction& head, Part part, int chunk, std::vector<Use> uses) {
    Instruction& instruction = out_.emplace_back(make(head.op, std::move(uses)));
    instruction.part = part;
    instruction.stage = head.stage;
    instruction.chunk = chunk;
    return instruction;
  }

  void add_sum_over_vocabulary(const Range& range, bool is_max) {
    add_sum(range);
    out_.back().comm->is_max = is_max;
  }

  /// Cross-entropy over a sharded vocabulary, a chunk of tokens at a time: two small reductions a
  /// chunk, and the logits stay where they are.
  void add_head(const Instruction& head) {
    const std::int64_t num_tokens = token_shape(program_).tokens();
    const std::int64_t chunk_tokens = std::min(kHeadChunkTokens, num_tokens);
    logits_ = scratch("head.logits", chunk_tokens * model_.spec().vocab, program_.request.compute);
    row_max_ = scratch("head.row_max", chunk_tokens, DType::kF32);
    sums_ = scratch("head.sums", 2 * chunk_tokens, DType::kF32);
    int chunk = 0;
    for (std::int64_t first = 0; first < num_tokens; first += chunk_tokens, ++chunk) {
      add_chunk(head, chunk, first, std::min(chunk_tokens, num_tokens - first));
    }
    if (is_backward(head.op)) add_sum(head.find(Role::kDx)->range);
  }

  void add_chunk(const Instruction& head, int chunk, std::int64_t first, std::int64_t num) {
    const std::int64_t num_tokens = token_shape(program_).tokens();
    const auto slice = [&](Role role) { return rows(*head.find(role), first, num, num_tokens); };
    const Use weight = *head.find(Role::kWeight);
    const Range logits = first_elems(logits_, num * model_.spec().vocab);
    const Range row_max = first_elems(row_max_, num), sums = first_elems(sums_, 2 * num);
    const Use workspace = *head.find(Role::kWorkspace);
    emit(head, Part::kHeadLogits, chunk,
         {slice(Role::kX),
          weight,
          {Role::kLogits, Access::kWrite, logits},
          {Role::kRowMax, Access::kWrite, row_max},
          workspace});
    add_sum_over_vocabulary(row_max, true);
    emit(head, Part::kHeadSums, chunk,
         {slice(Role::kLabels),
          {Role::kLogits, Access::kRead, logits},
          {Role::kRowMax, Access::kRead, row_max},
          {Role::kSums, Access::kWrite, sums}});
    add_sum_over_vocabulary(sums, false);
    Instruction& loss =
        emit(head, Part::kHeadLoss, chunk,
             {slice(Role::kLabels), {Role::kSums, Access::kRead, sums}, *head.find(Role::kLoss)});
    if (!is_backward(head.op)) return;
    loss.uses.insert(loss.uses.end(), {slice(Role::kX),
                                       weight,
                                       {Role::kRowMax, Access::kRead, row_max},
                                       {Role::kLogits, Access::kReadWrite, logits},
                                       *head.find(Role::kScale),
                                       slice(Role::kDx)});
    if (const Use* d_weight = head.find(Role::kDWeight)) {
      loss.uses.push_back(*d_weight);
      if (chunk > 0) loss.uses.back().access = Access::kAccumulate;
    }
    loss.uses.push_back(workspace);
  }

  /// Generation: each rank fills in its vocabulary, the rest is zero, and the sum is all of it.
  void add_logits(Instruction instruction) {
    Use& logits = *instruction.find(Role::kLogits);
    const Range all = logits.range;
    const std::int64_t elem_bytes = dtype_bytes(program_.buffer(all.buffer).dtype);
    logits.range.offset = model_.first_vocab_row() * elem_bytes;
    logits.range.bytes = model_.spec().vocab * elem_bytes;
    out_.push_back(make(Op::kZero, {{Role::kY, Access::kWrite, all}}));
    out_.push_back(std::move(instruction));
    add_sum(all);
  }

  Program& program_;
  const LocalModel& model_;
  std::vector<Instruction> out_;
  BufferId logits_ = -1, row_max_ = -1, sums_ = -1;
};

}  // namespace

void tensor_parallel(Program& program, const LocalModel& model) {
  for (Template& item : program.templates) {
    std::vector<Instruction> body = std::move(item.instructions);
    TensorParallelPass pass(program, model);
    item.instructions = pass.apply(std::move(body));
  }
}

}  // namespace trireme
