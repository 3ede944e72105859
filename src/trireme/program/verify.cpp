// The rules in the order in which they are checked: each may rely on those before it.
#include "trireme/program/verify.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/roots.h"
#include "trireme/program/text.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// The rules on one rank's step alone.
std::optional<Violation> check_step(const Program& program) {
  const StepView step(program);
  for (const auto check : {check_races, check_definitions, check_values, check_gradients,
                           check_scalars, check_updates}) {
    if (auto found = check(step)) return found;
  }
  return std::nullopt;
}

}  // namespace

bool scatters_gradients(const Program& program) {
  const Replicas replicas = replicas_of(program.request);
  return std::any_of(program.templates.begin(), program.templates.end(), [&](const Template& item) {
    return std::any_of(
        item.instructions.begin(), item.instructions.end(), [&](const Instruction& i) {
          return i.op == Op::kReduceScatter && i.comm && i.comm->group == replicas.shard_group;
        });
  });
}

std::string range_label(const Program& program, const Range& range) {
  return fmt::format("{}[{}:{}]", program.buffer(range.buffer).name, range.offset,
                     range.offset + range.bytes);
}

Violation violation(const Program& program, std::string_view rule, const Finding& finding) {
  return {.rule = std::string(rule),
          .rank = program.request.rank,
          .message = fmt::format("{} program: found {}; due: {}", program_kind_name(program.kind),
                                 finding.found, finding.due)};
}

Violation violation(const Program& program, std::string_view rule, At at, const Finding& finding) {
  const Call& call = program.calls.at(static_cast<std::size_t>(at.call));
  const Template& item = program.at(call.template_index);
  const Instruction& instruction = item.instructions.at(static_cast<std::size_t>(at.instruction));
  Violation result{.rule = std::string(rule),
                   .rank = program.request.rank,
                   .call = at.call,
                   .instruction = at.instruction,
                   .message = {}};
  result.message = fmt::format(
      "'{}' in {}{}: found {}; due: {}", instruction_text(program, instruction), item.name,
      call.micro_batch < 0 ? std::string() : fmt::format(" of micro-batch {}", call.micro_batch),
      finding.found, finding.due);
  return result;
}

Violation violation(const Program& program, std::string_view rule, At at, Role role,
                    const Range& range, const Finding& finding) {
  return violation(program, rule, at,
                   {.found = fmt::format("{} = {} {}", role_name(role), range_label(program, range),
                                         finding.found),
                    .due = finding.due});
}

StepView::StepView(const Program& of)
    : program(of),
      atoms(of),
      order(of),
      wiring(of),
      replicas(replicas_of(of.request)),
      roots(roots_of(of)),
      gradients(gradient_buffers(of)) {
  for (int root = 0; root < narrow<int>(roots.elems.size()); ++root) {
    params.push_back(*root_part(of, "params", root));
    kept_gradients.push_back(root_part(of, "grad_shards", root));
    reduced.push_back(reduced_gradients(of, root));
  }
}

int StepView::root_of_params(BufferId buffer) const {
  const auto found = std::find_if(params.begin(), params.end(),
                                  [buffer](const RootPart& part) { return part.buffer == buffer; });
  return found == params.end() ? -1 : narrow<int>(found - params.begin());
}

int StepView::root_of_kept(BufferId buffer) const {
  const auto found = std::find_if(
      kept_gradients.begin(), kept_gradients.end(),
      [buffer](const std::optional<RootPart>& part) { return part && part->buffer == buffer; });
  return found == kept_gradients.end() ? -1 : narrow<int>(found - kept_gradients.begin());
}

std::vector<bool> gradient_buffers(const Program& program) {
  std::vector<bool> found;
  for (const Buffer& buffer : program.buffers)
    found.push_back(buffer.kind == MemoryKind::kGradients);
  for (const ParameterSlot& slot : program.parameters) {
    if (slot.gradient.buffer >= 0) found[static_cast<std::size_t>(slot.gradient.buffer)] = true;
  }
  return found;
}

std::vector<int> StepView::micro_batches(int stage, bool (*is_due)(Phase phase)) const {
  std::vector<int> numbers;
  const auto rank = static_cast<std::size_t>(model().coord().pp);
  for (const ScheduleStep& step : model().pipeline().schedule().orders[rank]) {
    for_each_op(step, [&](const StageOp& op) {
      if (op.stage == stage && is_due(op.phase)) numbers.push_back(op.micro_batch);
    });
  }
  return numbers;
}

bool StepView::moves_activations(const Instruction& instruction) const {
  const Use* data = instruction.find(Role::kData);
  return data != nullptr && is_kind(*data, MemoryKind::kActivations);
}

std::optional<Range> StepView::own_shard(const Range& whole) const {
  if (whole.bytes % replicas.num_shards != 0) return std::nullopt;
  const Shard own = shard_of(whole.bytes, replicas.num_shards, replicas.shard);
  return Range{whole.buffer, whole.offset + own.begin, own.end - own.begin};
}

const std::vector<Rule>& verified_rules() {
  static const std::vector<Rule> rules = {
      {"V1", "every part runs exactly once per layer and micro-batch, forward before backward"},
      {"V2", "every byte that is read has been written"},
      {"V3", "a transient buffer is freed once, after its last use, within its call"},
      {"V4",
       "accumulation and in-place updates start from a defined value, gradients from a write"},
      {"V5", "conflicting accesses on different streams are ordered by waits"},
      {"V6", "the ranks of a communicator call the same collectives in the same order", true},
      {"V7", "every message that is sent is received, with the same tag and size", true},
      {"V8", "ranks never wait for each other in a circle", true},
      {"V9", "a communicator is used by one stream"},
      {"V10", "a gradient holds every contribution exactly once when it is used"},
      {"V11", "all parts read the parameters of the step's start"},
      {"V12", "every parameter and moment is updated exactly once"},
      {"V13", "operands lie in their buffers, buffers in the arena, apart from what is alive"},
      {"V14", "loss and gradients are scaled by 1/N of the whole step, exactly once"},
      {"V15", "the gradient norm counts every element exactly once over all ranks", true},
      {"V16", "operands carry the values that the model names, recomputed or kept"},
      {"V17", "contributions are added in the order of the schedule"},
      {"V18", "ranks that differ along dp, cp or tp alone do the same", true},
  };
  return rules;
}

std::optional<Violation> verify(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    for (const auto check : {check_operands, check_parts, check_frees}) {
      if (auto found = check(program)) return found;
    }
  }
  if (auto found = check_peers(programs)) return found;
  for (const Program& program : programs) {
    if (auto found = check_step(program)) return found;
  }
  for (const DeadlockMode mode : {DeadlockMode::kPerStream, DeadlockMode::kDeviceSerial}) {
    if (auto found = check_deadlock(programs, mode)) return found;
  }
  if (auto found = check_norm_cover(programs)) return found;
  return check_replicas(programs);
}

void require_valid(const std::optional<Violation>& violation) {
  if (!violation) return;
  std::string place = fmt::format("rank {}", violation->rank);
  if (violation->call >= 0) place += fmt::format(", call {}", violation->call);
  if (violation->instruction >= 0) place += fmt::format(", instruction {}", violation->instruction);
  std::string_view claim;
  for (const Rule& rule : verified_rules()) {
    if (rule.name == violation->rule) claim = rule.claim;
  }
  throw InternalError(
      fmt::format("[verify] {} ({}): {}; rule {}: {}; a builder or pass is at fault",
                  violation->rule, place, violation->message, violation->rule, claim));
}

}  // namespace trireme
