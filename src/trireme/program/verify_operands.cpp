// V13 of a program: operands, parameters, calls and frees name what exists.
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// What is wrong with a range as such; nothing if it is right.
std::optional<Finding> range_fault(const Program& program, const Range& range) {
  const auto num_buffers = static_cast<BufferId>(program.buffers.size());
  if (range.buffer < 0 || range.buffer >= num_buffers) {
    return Finding{fmt::format("buffer number {}", range.buffer),
                   fmt::format("one of the {} buffers", num_buffers)};
  }
  const Buffer& buffer = program.buffer(range.buffer);
  if (range.offset < 0 || range.bytes <= 0 || range.bytes > buffer.bytes ||
      range.offset > buffer.bytes - range.bytes) {
    return Finding{fmt::format("{} bytes at {} of {}", range.bytes, range.offset, buffer.name),
                   fmt::format("a range of its {} bytes that is not empty", buffer.bytes)};
  }
  const std::int64_t unit = dtype_bytes(buffer.dtype);
  if (range.offset % unit != 0 || range.bytes % unit != 0) {
    return Finding{range_label(program, range), fmt::format("whole elements of {} bytes", unit)};
  }
  return std::nullopt;
}

Violation in_template(const Program& program, const Template& item, std::size_t instruction,
                      Finding finding) {
  finding.found = fmt::format("{} in instruction {} ({}) of {}", finding.found, instruction,
                              op_name(item.instructions[instruction].op), item.name);
  Violation result = violation(program, "V13", finding);
  result.instruction = static_cast<int>(instruction);
  return result;
}

/// The type that a part's kernel takes an operand for; nothing where bytes are enough.
std::optional<DType> due_dtype(const Program& program, Role role) {
  switch (role) {
    case Role::kTokens:
    case Role::kLabels:
      return DType::kI32;
    case Role::kSamples:
    case Role::kLength:
      return DType::kI64;
    case Role::kLoss:
    case Role::kNormSquare:
    case Role::kHyper:
      return DType::kF64;
    case Role::kStats:
    case Role::kCos:
    case Role::kSin:
    case Role::kLse:
    case Role::kDWeight:
    case Role::kDBias:
    case Role::kDWeight2:
    case Role::kDQNorm:
    case Role::kDKNorm:
    case Role::kScale:
    case Role::kCoefficient:
    case Role::kMoment1:
    case Role::kMoment2:
    case Role::kGradient:
    case Role::kMaster:
    case Role::kRowMax:
    case Role::kSums:
      return DType::kF32;
    case Role::kX:
    case Role::kY:
    case Role::kData:
    case Role::kShard:
    case Role::kWorkspace:
      return std::nullopt;
    default:
      return program.request.compute;
  }
}

/// What a step of ring attention adds up, and what adds up on its way.
bool is_partial_sum(const Instruction& instruction, Role role) {
  if (instruction.part == Part::kRingDkv) return true;
  const bool is_step = instruction.part == Part::kAttn && instruction.chunk >= 0;
  if (is_step && is_forward(instruction.op)) return role == Role::kY;
  return is_step && (role == Role::kDq || role == Role::kDk || role == Role::kDv);
}

/// X and Y of a part are activations; of other operations they are anything.
std::optional<DType> due_dtype(const Program& program, const Instruction& instruction, Role role) {
  if (is_partial_sum(instruction, role)) return DType::kF32;
  const bool is_activation =
      instruction.part != Part::kNone && (role == Role::kX || role == Role::kY);
  return is_activation ? program.request.compute : due_dtype(program, role);
}

std::optional<Finding> dtype_fault(const Program& program, const Instruction& instruction,
                                   const Use& use) {
  const auto due = due_dtype(program, instruction, use.role);
  const DType found = program.buffer(use.range.buffer).dtype;
  if (!due || found == *due) return std::nullopt;
  return Finding{fmt::format("{} of {}", range_label(program, use.range), dtype_name(found)),
                 std::string(dtype_name(*due))};
}

/// A copy has as many elements; on the way it may round.
std::optional<Finding> copy_fault(const Program& program, const Instruction& instruction) {
  const Use* x = instruction.find(Role::kX);
  const Use* y = instruction.find(Role::kY);
  if (instruction.op != Op::kCopy || x == nullptr || y == nullptr) return std::nullopt;
  const DType from = program.buffer(x->range.buffer).dtype;
  const DType to = program.buffer(y->range.buffer).dtype;
  const bool is_rounding = from == DType::kF32 && to == DType::kBf16;
  const bool is_equal = num_elems(program, x->range) == num_elems(program, y->range);
  if (is_equal && (from == to || is_rounding)) return std::nullopt;
  return Finding{fmt::format("a copy of {} of {} to {} of {}", num_elems(program, x->range),
                             dtype_name(from), num_elems(program, y->range), dtype_name(to)),
                 "as many elements of one type, or of f32 that become bf16"};
}

/// What is wrong with the operands and frees of one instruction.
std::optional<Finding> instruction_fault(const Program& program, const Instruction& instruction) {
  for (const Use& use : instruction.uses) {
    auto fault = range_fault(program, use.range);
    if (!fault) fault = dtype_fault(program, instruction, use);
    if (!fault) continue;
    fault->found = fmt::format("{} = {}", role_name(use.role), fault->found);
    return fault;
  }
  if (auto fault = copy_fault(program, instruction)) return fault;
  const auto num_buffers = static_cast<BufferId>(program.buffers.size());
  for (const BufferId id : instruction.frees) {
    if (id >= 0 && id < num_buffers) continue;
    return Finding{fmt::format("free of buffer number {}", id), "a buffer"};
  }
  return std::nullopt;
}

std::optional<Violation> check_templates(const Program& program) {
  for (const Template& item : program.templates) {
    for (std::size_t i = 0; i < item.instructions.size(); ++i) {
      if (auto fault = instruction_fault(program, item.instructions[i]))
        return in_template(program, item, i, *fault);
    }
  }
  return std::nullopt;
}

/// Each pool that a call's template uses has one valid frame.
std::optional<Violation> check_frames(const Program& program, const Call& call) {
  const auto num_pools = static_cast<int>(program.pools.size());
  std::vector<int> named(program.pools.size(), 0);
  for (const CallFrame& at : call.frames) {
    const bool exists = at.pool >= 0 && at.pool < num_pools && at.frame >= 0 &&
                        at.frame < program.pools[static_cast<std::size_t>(at.pool)].num_frames &&
                        ++named[static_cast<std::size_t>(at.pool)] == 1;
    if (exists) continue;
    return violation(program, "V13",
                     {fmt::format("frame {} of pool {} in a call of {}", at.frame, at.pool,
                                  program.at(call.template_index).name),
                      "one existing frame of a pool"});
  }
  for (const Instruction& instruction : program.at(call.template_index).instructions) {
    for (const Use& use : instruction.uses) {
      const int pool = program.buffer(use.range.buffer).pool;
      if (pool < 0 || named[static_cast<std::size_t>(pool)] == 1) continue;
      return violation(
          program, "V13",
          {fmt::format("{} in a call of {} without a frame", program.buffer(use.range.buffer).name,
                       program.at(call.template_index).name),
           fmt::format("a frame of pool {}", program.pools[static_cast<std::size_t>(pool)].name)});
    }
  }
  return std::nullopt;
}

std::optional<Violation> check_calls(const Program& program) {
  const auto num_templates = static_cast<int>(program.templates.size());
  for (const Call& call : program.calls) {
    const bool is_valid = call.template_index >= 0 && call.template_index < num_templates &&
                          call.micro_batch < program.num_micro_batches;
    if (!is_valid) {
      return violation(program, "V13",
                       {fmt::format("a call of template {} for micro-batch {}", call.template_index,
                                    call.micro_batch),
                        fmt::format("{} templates, {} micro-batches", num_templates,
                                    program.num_micro_batches)});
    }
    if (auto found = check_frames(program, call)) return found;
    const Template& item = program.at(call.template_index);
    for (const CallWait& of_call : call.waits) {
      if (of_call.instruction >= 0 && of_call.instruction < std::ssize(item.instructions)) continue;
      return violation(
          program, "V13",
          {fmt::format("a wait of instruction {} in a call of {}", of_call.instruction, item.name),
           fmt::format("one of its {} instructions", item.instructions.size())});
    }
  }
  return std::nullopt;
}

/// Framed buffers have a pool, others none; a pool has not more frames than the step has calls.
std::optional<Violation> check_pools(const Program& program) {
  const auto num_pools = static_cast<int>(program.pools.size());
  for (const Buffer& buffer : program.buffers) {
    const bool is_framed = buffer.content == Content::kFramed;
    if (is_framed ? buffer.pool >= 0 && buffer.pool < num_pools : buffer.pool == -1) continue;
    return violation(program, "V13",
                     {fmt::format("{} in pool {}", buffer.name, buffer.pool),
                      "a pool for framed buffers, none for others"});
  }
  for (const FramePool& pool : program.pools) {
    const auto num_calls = static_cast<int>(program.calls.size());
    if (pool.num_frames >= 1 && pool.num_frames <= std::max(num_calls, 1)) continue;
    return violation(program, "V13",
                     {fmt::format("{} frames of pool {}", pool.num_frames, pool.name),
                      fmt::format("1 to the {} calls of the step", num_calls)});
  }
  return std::nullopt;
}

/// What is wrong with a place of the rank's elements of a row.
std::optional<Finding> slot_fault(const Program& program, const LocalModel& model, std::size_t row,
                                  const Range& range) {
  auto fault = range_fault(program, range);
  if (!fault) {
    const std::int64_t due =
        model.shard(row).num_elems() * dtype_bytes(program.buffer(range.buffer).dtype);
    if (range.bytes == due) return std::nullopt;
    fault = Finding{range_label(program, range), fmt::format("{} bytes", due)};
  }
  fault->found = fmt::format("{} for parameter {}", fault->found, model.row(row).name);
  return fault;
}

/// Where a row has its parameter or gradient. Rows of different roots may use the same bytes for
/// their gradients, one root after the other.
struct Taken {
  BufferId root = -1;
  Range range;
};

/// One entry per row of the table, of the row's size, apart from each other.
std::optional<Violation> check_slots(const Program& program) {
  const LocalModel model(program);
  const std::size_t num_rows = model.table().rows().size();
  if (program.parameters.size() != num_rows) {
    return violation(program, "V13",
                     {fmt::format("{} parameters", program.parameters.size()),
                      fmt::format("the {} rows of the parameter table", num_rows)});
  }
  std::vector<Taken> taken;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const ParameterSlot& slot = program.parameters[row];
    if (!model.holds(row)) {
      if (slot == ParameterSlot{}) continue;
      return violation(program, "V13",
                       {fmt::format("a place for parameter {}", model.row(row).name),
                        "none: another stage holds it"});
    }
    std::vector<Range> ranges = {slot.parameter};
    if (slot.gradient.buffer >= 0) ranges.push_back(slot.gradient);
    if (slot.head_gradient) ranges.push_back(*slot.head_gradient);
    for (const Range& range : ranges) {
      if (auto fault = slot_fault(program, model, row, range))
        return violation(program, "V13", *fault);
      taken.push_back({slot.parameter.buffer, range});
    }
  }
  std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) {
    return std::tuple(a.root, a.range.buffer, a.range.offset) <
           std::tuple(b.root, b.range.buffer, b.range.offset);
  });
  for (std::size_t i = 1; i < taken.size(); ++i) {
    const Taken& before = taken[i - 1];
    if (before.root != taken[i].root || before.range.buffer != taken[i].range.buffer ||
        before.range.offset + before.range.bytes <= taken[i].range.offset)
      continue;
    return violation(program, "V13",
                     {fmt::format("parameters at {} and {}", range_label(program, before.range),
                                  range_label(program, taken[i].range)),
                      "parameters and gradients that do not overlap"});
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> check_operands(const Program& program) {
  for (const auto check : {check_pools, check_templates, check_calls, check_slots}) {
    if (auto found = check(program)) return found;
  }
  return std::nullopt;
}

}  // namespace trireme
