// Helpers with which passes add instructions around the micro-batches of a step.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Template called before the first micro-batch; made (with its call) when missing.
Template& begin_of_step(Program& program);
/// Template called after everything else; made (with its call) when missing.
Template& end_of_step(Program& program);
/// Template of this name called right before the end of the step, after those added earlier; made
/// (with its call) when missing.
Template& before_end_of_step(Program& program, std::string_view name);

[[nodiscard]] Instruction make(Op op, std::vector<Use> uses);
/// Collectives over a group, on the group's stream: the sum in place, the rank's own share of the
/// sum of `full`, and `full` from every rank's `own`.
[[nodiscard]] Instruction all_reduce(const Program& program, Range range, std::string_view group);
/// All-reduce of the gradient of one row.
[[nodiscard]] Instruction sum_of_gradient(const Program& program, std::size_t row,
                                          std::string_view group);
[[nodiscard]] Instruction reduce_scatter(const Program& program, Range full, Range own,
                                         std::string_view group);
[[nodiscard]] Instruction all_gather(const Program& program, Range own, Range full,
                                     std::string_view group);

}  // namespace trireme
