// V16 of what carries no value number: how operations use their operands, and where messages go.
#include <string>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// How an operation that is no part uses an operand; nothing where other rules say it.
std::optional<Access> due_access(Op op, Role role) {
  switch (op) {
    case Op::kLoad:
    case Op::kCount:
    case Op::kZero:
      return Access::kWrite;
    case Op::kCopy:
    case Op::kInverse:
      return role == Role::kY ? Access::kWrite : Access::kRead;
    case Op::kAdd:
      return role == Role::kY ? Access::kAccumulate : Access::kRead;
    case Op::kNormSquare:
      return role == Role::kNormSquare ? Access::kAccumulate : Access::kRead;
    case Op::kClip:
      return role == Role::kCoefficient ? Access::kWrite : Access::kRead;
    case Op::kOptStep: {
      const bool is_state = role == Role::kParameter || role == Role::kMaster ||
                            role == Role::kMoment1 || role == Role::kMoment2;
      return is_state ? Access::kReadWrite : Access::kRead;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Violation> check_accesses(const StepView& step, At at,
                                        const Instruction& instruction) {
  for (const Use& use : instruction.uses) {
    const auto due = due_access(instruction.op, use.role);
    if (!due || use.access == *due) continue;
    return violation(
        step.program, "V16", at, use.role, use.range,
        {fmt::format("with access {}", access_name(use.access)), std::string(access_name(*due))});
  }
  return std::nullopt;
}

std::optional<Violation> check_stage_address(const StepView& step, At at, const Call& call,
                                             const Instruction& instruction) {
  const Pipeline& pipeline = step.wiring.model().pipeline();
  const bool is_send = instruction.op == Op::kSend;
  const bool is_gradient = (instruction.part == Part::kStageIn) == is_send;
  const int other = instruction.stage + (is_gradient == is_send ? -1 : 1);
  const int maker = is_send ? instruction.stage : other;
  const int kind = is_gradient ? pipeline.num_stages() : 0;
  const int due_tag = (kind + maker) * step.program.num_micro_batches;
  const int due_peer = pipeline.rank_of(other, call.micro_batch);
  const Comm comm = instruction.comm.value_or(Comm{});
  const std::string_view due_group = axis_name(Axis::kPp);
  if (comm.group == due_group && comm.peer == due_peer && comm.tag == due_tag) return std::nullopt;
  return violation(
      step.program, "V16", at,
      {fmt::format("a message on '{}' with rank {} under tag {}", comm.group, comm.peer, comm.tag),
       fmt::format("'{}', rank {}, tag {}", due_group, due_peer, due_tag)});
}

std::optional<Violation> check_ring_address(const StepView& step, At at, const WiredPart& part,
                                            const Instruction& instruction) {
  const int num_ranks = step.wiring.model().num_cp_ranks(), own = step.wiring.model().coord().cp;
  const auto num_layers = narrow<int>(step.program.request.spec.layers);
  const int ring = part.layer + (part.part == Part::kRingDkv ? num_layers : 0);
  const int due_tag = (ring * num_ranks + part.chunk) * step.program.num_micro_batches;
  const int next = (own + 1) % num_ranks, before = (own + num_ranks - 1) % num_ranks;
  const Comm comm = instruction.comm.value_or(Comm{});
  const std::string_view due_group = axis_name(Axis::kCp);
  if (comm.group == due_group && comm.peer == next && comm.source == before && comm.tag == due_tag)
    return std::nullopt;
  return violation(step.program, "V16", at,
                   {fmt::format("an exchange on '{}', to rank {} and from rank {}, under tag {}",
                                comm.group, comm.peer, comm.source, comm.tag),
                    fmt::format("'{}', to {}, from {}, tag {}", due_group, next, before, due_tag)});
}

}  // namespace trireme
