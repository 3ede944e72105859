// Gradients of what several ranks of one model replica hold are summed over these ranks.
#include <cstddef>

#include "trireme/program/groups.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void sum_replicas(Program& program, const LocalModel& model) {
  std::vector<Instruction> sums;
  for (const std::size_t row : rows_in_root_order(program)) {
    const Range& gradient = program.parameters[row].gradient;
    if (gradient.buffer < 0 || model.is_reduced_at_once(row)) continue;
    for (const std::string_view group : model.gradient_groups(row))
      sums.push_back(sum_of_gradient(program, row, group));
  }
  if (!sums.empty()) before_end_of_step(program, "reduce").instructions = std::move(sums);
}

}  // namespace trireme
