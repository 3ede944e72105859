// Gradient accumulation over micro-batches.
#include <utility>

#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

bool is_gradient(const Program& program, const Use& use) {
  return program.buffer(use.range.buffer).kind == MemoryKind::kGradients;
}

/// The micro-batch body whose gradient writes add to what earlier micro-batches left.
std::vector<Instruction> accumulating(const Program& program,
                                      std::vector<Instruction> instructions) {
  for (Instruction& instruction : instructions) {
    for (Use& use : instruction.uses) {
      if (use.access == Access::kWrite && is_gradient(program, use))
        use.access = Access::kAccumulate;
    }
  }
  return instructions;
}

}  // namespace

void accumulate(Program& program) {
  const int first = program.template_index("micro");
  if (program.kind !=
      ProgramKind::kTrain) {  // nothing accumulates but the loss: one template serves all
    for (int i = 0; i < program.num_micro_batches; ++i) {
      program.calls.push_back({.template_index = first, .micro_batch = i});
    }
    return;
  }
  const std::vector<Instruction> body = program.at(first).instructions;
  const int last_micro_batch = program.num_micro_batches - 1;
  program.at(first).name = last_micro_batch == 0 ? "micro.only" : "micro.first";
  program.calls.push_back({.template_index = first, .micro_batch = 0});
  for (int micro_batch = 1; micro_batch <= last_micro_batch; ++micro_batch) {
    const char* const name = micro_batch == last_micro_batch ? "micro.last" : "micro.next";
    const bool is_new = !program.find_template(name).has_value();
    const int index = program.template_index(name);
    if (is_new) program.at(index).instructions = accumulating(program, body);
    program.calls.push_back({.template_index = index, .micro_batch = micro_batch});
  }
}

}  // namespace trireme
