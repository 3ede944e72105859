// Tied embeddings: one table, two gradients, added once per step.
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void tie_embeddings(Program& program) {
  for (const ParameterSlot& slot : program.parameters) {
    if (!slot.head_gradient) continue;
    before_end_of_step(program, "tie")
        .instructions.push_back(make(Op::kAdd, {{Role::kX, Access::kRead, *slot.head_gradient},
                                                {Role::kY, Access::kAccumulate, slot.gradient}}));
  }
}

}  // namespace trireme
