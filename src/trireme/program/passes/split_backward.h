// The backward pass of a stage in two halves.
#pragma once

#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// The halves of a backward pass (zero bubble, Qi et al. 2023, arXiv:2401.10241, section 2): the
/// gradient of the input with all that it needs, and the weight gradients of linear parts, which
/// may run much later. What the weight half reads and the input half changes in place is copied.
struct BackwardHalves {
  std::vector<Instruction> input;
  std::vector<Instruction> weight;
};
[[nodiscard]] BackwardHalves split_backward(Program& program,
                                            const std::vector<Instruction>& backward);

}  // namespace trireme
