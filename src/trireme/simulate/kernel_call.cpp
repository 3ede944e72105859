#include "trireme/simulate/kernel_call.h"

#include <algorithm>

#include "trireme/base/errors.h"
#include "trireme/program/groups.h"
#include "trireme/program/model_parts.h"

namespace trireme {
namespace {

double count(const Program& program, const Instruction& instruction, Role role) {
  const Use* const use = instruction.find(role);
  TRI_CHECK(use != nullptr);
  return static_cast<double>(num_elems(program, use->range));
}

/// Of the first of the roles that the instruction has.
double count(const Program& program, const Instruction& instruction,
             std::initializer_list<Role> roles) {
  for (const Role role : roles) {
    if (instruction.has(role)) return count(program, instruction, role);
  }
  TRI_CHECK(false && "an instruction without the operands of its part");
}

double tokens_of(const Program& program) {
  return static_cast<double>(token_shape(program).tokens());
}

KernelCall linear_call(const Program& program, const LocalModel& model,
                       const Instruction& instruction) {
  const LinearShape shape = linear_shape(model.spec(), instruction.part);
  KernelCall call{
      .kernel = Kernel::kProductForward,
      .sizes = {tokens_of(program), static_cast<double>(shape.out), static_cast<double>(shape.in)}};
  if (instruction.op == Op::kBackwardInput) call.kernel = Kernel::kProductInput;
  if (instruction.op == Op::kBackwardWeight) {
    const bool adds = instruction.find(Role::kDWeight)->access == Access::kAccumulate;
    call.kernel = adds ? Kernel::kProductWeightAdd : Kernel::kProductWeight;
  }
  return call;
}

KernelCall attention_call(const Program& program, const LocalModel& model,
                          const Instruction& instruction) {
  const ModelSpec& spec = model.spec();
  const TokenShape shape = token_shape(program);
  const bool is_step = instruction.chunk >= 0;
  const int num_key_ranks = model.has_ring() ? 1 : model.num_cp_ranks();
  KernelCall call{.sizes = {static_cast<double>(shape.micro_batch * spec.heads),
                            static_cast<double>(shape.seq),
                            static_cast<double>(shape.seq * num_key_ranks),
                            static_cast<double>(spec.head_dim)}};
  if (is_backward(instruction.op)) {
    call.kernel = is_step ? Kernel::kRingAttentionBackward : Kernel::kAttentionBackward;
  } else {
    call.kernel = is_step ? Kernel::kRingAttentionForward : Kernel::kAttentionForward;
  }
  return call;
}

KernelCall head_call(const Program& program, const LocalModel& model,
                     const Instruction& instruction) {
  const auto hidden = static_cast<double>(model.spec().hidden);
  if (instruction.part == Part::kHead)
    return {.kernel = Kernel::kHead,
            .sizes = {tokens_of(program), static_cast<double>(model.spec().vocab), hidden}};
  if (instruction.part == Part::kHeadSums)
    return {.kernel = Kernel::kHeadSums, .sizes = {count(program, instruction, Role::kLogits)}};
  const Role rows = instruction.part == Part::kHeadLogits ? Role::kRowMax : Role::kLabels;
  return {
      .kernel = instruction.part == Part::kHeadLogits ? Kernel::kHeadLogits : Kernel::kHeadGradient,
      .sizes = {count(program, instruction, rows), static_cast<double>(model.spec().vocab),
                hidden}};
}

Kernel norm_kernel(const LocalModel& model, const Instruction& instruction) {
  const bool is_rms = model.spec().is_llama();
  if (is_backward(instruction.op))
    return is_rms ? Kernel::kRmsNormBackward : Kernel::kLayerNormBackward;
  if (!instruction.has(Role::kX)) return is_rms ? Kernel::kRmsNormAgain : Kernel::kLayerNormAgain;
  return is_rms ? Kernel::kRmsNormForward : Kernel::kLayerNormForward;
}

Kernel split_kernel(const LocalModel& model, bool is_gradient) {
  if (!model.spec().is_llama()) return is_gradient ? Kernel::kSplitBackward : Kernel::kSplitForward;
  if (model.spec().qk_norm)
    return is_gradient ? Kernel::kHeadNormBackward : Kernel::kHeadNormForward;
  return is_gradient ? Kernel::kRotationBackward : Kernel::kRotationForward;
}

KernelCall activation_call(const Program& program, const LocalModel& model, bool is_gradient) {
  const bool is_llama = model.spec().is_llama();
  return {.kernel = is_gradient ? (is_llama ? Kernel::kSwigluBackward : Kernel::kGeluBackward)
                                : (is_llama ? Kernel::kSwigluForward : Kernel::kGeluForward),
          .sizes = {tokens_of(program) * static_cast<double>(model.spec().ffn)}};
}

/// A gradient that is written, not added to, is zeroed first.
KernelCall embedding_call(const Program& program, const LocalModel& model,
                          const Instruction& instruction) {
  const double elems = tokens_of(program) * static_cast<double>(model.spec().hidden);
  if (!is_backward(instruction.op)) return {.kernel = Kernel::kEmbeddingForward, .sizes = {elems}};
  const Use* const table = instruction.find(Role::kDWeight);
  const double zeroed = table != nullptr && table->access == Access::kWrite
                            ? static_cast<double>(num_elems(program, table->range))
                            : 0;
  return {.kernel = Kernel::kEmbeddingBackward, .sizes = {elems + zeroed}};
}

KernelCall copy_call(const Program& program, const Instruction& instruction) {
  const Range& x = instruction.find(Role::kX)->range;
  const Range& y = instruction.find(Role::kY)->range;
  const bool rounds = program.buffer(x.buffer).dtype != program.buffer(y.buffer).dtype;
  return {.kernel = rounds ? Kernel::kRound : Kernel::kCopy,
          .sizes = {static_cast<double>(x.bytes) / sizeof(float)}};
}

/// What is no part of the model, and copies and additions at the ends of stages and rings.
KernelCall plain_call(const Program& program, const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kLoad:
      return {.kernel = Kernel::kLoad, .sizes = {tokens_of(program)}};
    case Op::kZero:
      return {
          .kernel = Kernel::kZero,
          .sizes = {static_cast<double>(instruction.find(Role::kY)->range.bytes) / sizeof(float)}};
    case Op::kCopy:
      return copy_call(program, instruction);
    case Op::kAdd:
      return {.kernel = Kernel::kAdd, .sizes = {count(program, instruction, Role::kX)}};
    case Op::kNormSquare:
      return {.kernel = Kernel::kSquareSum, .sizes = {count(program, instruction, Role::kX)}};
    case Op::kOptStep:
      return {.kernel = Kernel::kAdamw, .sizes = {count(program, instruction, Role::kParameter)}};
    case Op::kCount:
    case Op::kInverse:
    case Op::kClip:
      return {.kernel = Kernel::kScalar, .sizes = {1}};
    default:
      TRI_CHECK(false && "no kernel for this operation");
  }
}

}  // namespace

double KernelCall::work() const {
  const KernelTable& table = kernel_table(kernel);
  double work = 1;
  for (int i = 0; i < table.num_sizes; ++i) work *= sizes.at(static_cast<std::size_t>(i));
  return work;
}

KernelCall kernel_call(const Program& program, const LocalModel& model,
                       const Instruction& instruction) {
  TRI_CHECK(!instruction.comm);
  const bool is_gradient = is_backward(instruction.op);
  if (is_linear(instruction.part)) return linear_call(program, model, instruction);
  if (is_head(instruction.part)) return head_call(program, model, instruction);
  if (is_norm(instruction.part)) {
    return {.kernel = norm_kernel(model, instruction),
            .sizes = {count(program, instruction, {Role::kX, Role::kH})}};
  }
  switch (instruction.part) {
    case Part::kEmbed:
      return embedding_call(program, model, instruction);
    case Part::kRope:
      return {.kernel = split_kernel(model, is_gradient),
              .sizes = {tokens_of(program) * static_cast<double>(model.spec().qkv_width())}};
    case Part::kAttn:
      if (!is_forward(instruction.op) && !is_gradient) break;  // a copy or zero of its operands
      return attention_call(program, model, instruction);
    case Part::kAct:
      return activation_call(program, model, is_gradient);
    case Part::kDropout:
      return {.kernel = is_gradient ? Kernel::kDropoutBackward : Kernel::kDropoutForward,
              .sizes = {count(program, instruction, {Role::kDx, Role::kY})}};
    case Part::kRowBias:
      return {.kernel = Kernel::kRowBias, .sizes = {count(program, instruction, Role::kY)}};
    case Part::kPosition:
      return {.kernel = Kernel::kPosition, .sizes = {count(program, instruction, Role::kY)}};
    case Part::kStageOut:
      if (instruction.op != Op::kForward) break;
      return {.kernel = Kernel::kStageOut, .sizes = {count(program, instruction, Role::kY)}};
    default:
      break;
  }
  return plain_call(program, instruction);
}

TransferCall transfer_call(const Program& program, const Instruction& instruction) {
  TRI_CHECK(instruction.comm.has_value());
  const Use* const full = instruction.find(Role::kData);
  TRI_CHECK(full != nullptr);
  TransferCall call{
      .ranks = static_cast<double>(group_ranks(program.request, instruction.comm->group).size())};
  // Of all-gathers and reduce-scatters one operand is the full message.
  for (const Use& use : instruction.uses)
    call.bytes = std::max(call.bytes, static_cast<double>(use.range.bytes));
  const bool is_narrow = instruction.comm->dtype == DType::kBf16 &&
                         program.buffer(full->range.buffer).dtype == DType::kF32;
  switch (instruction.op) {
    case Op::kAllReduce:
      call.transfers = is_narrow ? Transfers::kAllReduceBf16 : Transfers::kAllReduce;
      return call;
    case Op::kReduceScatter:
      call.transfers = is_narrow ? Transfers::kReduceScatterBf16 : Transfers::kReduceScatter;
      return call;
    case Op::kAllGather:
      call.transfers = Transfers::kAllGather;
      return call;
    case Op::kExchange:
      call.transfers = Transfers::kExchange;
      break;
    default:
      call.transfers = Transfers::kMessage;
      break;
  }
  call.ranks = 2;
  return call;
}

}  // namespace trireme
