// AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) on every trainable parameter.
#include <cstddef>
#include <utility>

#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void optimize(Program& program) {
  std::vector<BufferId> moments1, moments2;
  const ParameterRoots roots = roots_of(program);
  for (std::size_t root = 0; root < roots.bytes.size(); ++root) {
    const auto add = [&](std::string_view kind_name) {
      return program.add_buffer({.name = root_name(kind_name, static_cast<int>(root)),
                                 .kind = MemoryKind::kMoments,
                                 .content = Content::kState,
                                 .bytes = roots.bytes[root]});
    };
    moments1.push_back(add("moments1"));
    moments2.push_back(add("moments2"));
  }
  Template& end = end_of_step(program);
  for (const std::size_t row : rows_in_root_order(program)) {
    const ParameterSlot& slot = program.parameters[row];
    if (slot.gradient.buffer < 0) continue;
    const auto root = static_cast<std::size_t>(roots.rows[row].root);
    const auto at = [&](BufferId id) {
      return Range{id, slot.parameter.offset, slot.parameter.bytes};
    };
    Instruction step =
        make(Op::kOptStep,
             {{Role::kParameter, Access::kReadWrite, slot.parameter},
              {Role::kMoment1, Access::kReadWrite, at(moments1[root])},
              {Role::kMoment2, Access::kReadWrite, at(moments2[root])},
              {Role::kGradient, Access::kRead, slot.gradient},
              {Role::kCoefficient, Access::kRead, program.whole(*program.find_buffer("coef"))},
              {Role::kHyper, Access::kRead, program.whole(*program.find_buffer("hyper"))}});
    step.parameter = static_cast<int>(row);
    end.instructions.push_back(std::move(step));
  }
}

}  // namespace trireme
