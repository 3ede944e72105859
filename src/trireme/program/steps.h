// Helpers with which passes add instructions around the micro-batches of a step.
#pragma once

#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Template called before the first micro-batch; made (with its call) when missing.
Template& begin_of_step(Program& program);
/// Template called after everything else; made (with its call) when missing.
Template& end_of_step(Program& program);
/// Index of the template of the last micro-batch.
[[nodiscard]] int last_micro_template(const Program& program);

[[nodiscard]] Instruction make(Op op, std::vector<Use> uses);
/// In-place sum over the dp group, on the communication stream.
[[nodiscard]] Instruction all_reduce(const Program& program, Range range);

/// Position of the last instruction of `instructions` that writes into `range`; -1 if there is
/// none.
[[nodiscard]] int last_writer(const std::vector<Instruction>& instructions, const Range& range);
[[nodiscard]] bool overlaps(const Range& a, const Range& b);

}  // namespace trireme
