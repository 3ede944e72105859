// Gradient norm and clipping: squares in fp64, one sum, one coefficient folded into the optimizer.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void clip(Program& program, const LocalModel& model) {
  const Range norm_square = program.whole(*program.find_buffer("norm_sq"));
  begin_of_step(program).instructions.push_back(
      make(Op::kZero, {{Role::kY, Access::kWrite, norm_square}}));
  Template& end = end_of_step(program);
  for (const std::size_t row : rows_in_root_order(program)) {
    const Range& gradient = program.parameters[row].gradient;
    if (gradient.buffer < 0 || !model.counts_in_norm(row)) continue;
    Instruction instruction =
        make(Op::kNormSquare, {{Role::kX, Access::kRead, gradient},
                               {Role::kNormSquare, Access::kAccumulate, norm_square}});
    instruction.parameter = static_cast<int>(row);
    end.instructions.push_back(std::move(instruction));
  }
  for (const Axis axis : {Axis::kTp, Axis::kPp}) {
    if (program.request.layout.mesh().extent(axis) > 1)
      end.instructions.push_back(all_reduce(program, norm_square, axis_name(axis)));
  }
  end.instructions.push_back(
      make(Op::kClip,
           {{Role::kNormSquare, Access::kRead, norm_square},
            {Role::kLoss, Access::kRead, program.whole(*program.find_buffer("loss"))},
            {Role::kHyper, Access::kRead, program.whole(*program.find_buffer("hyper"))},
            {Role::kCoefficient, Access::kWrite, program.whole(*program.find_buffer("coef"))}}));
}

}  // namespace trireme
