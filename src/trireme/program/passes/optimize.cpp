// AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) on every trainable parameter; of bf16
// parameters on the fp32 master, which is then rounded.
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void optimize(Program& program) {
  const bool has_master = program.request.has_master();
  const ParameterRoots roots = roots_of(program);
  struct Root {
    BufferId moments1 = -1, moments2 = -1, master = -1;
  };
  std::vector<Root> state;
  for (std::size_t root = 0; root < roots.elems.size(); ++root) {
    const auto add = [&](std::string_view kind_name, MemoryKind kind) {
      return program.add_buffer({.name = root_name(kind_name, narrow<int>(root)),
                                 .kind = kind,
                                 .content = Content::kState,
                                 .bytes = roots.elems[root] * dtype_bytes(DType::kF32)});
    };
    Root& at = state.emplace_back();
    at.moments1 = add("moments1", MemoryKind::kMoments);
    at.moments2 = add("moments2", MemoryKind::kMoments);
    if (has_master) at.master = add("master", MemoryKind::kMaster);
  }
  Template& end = end_of_step(program);
  for (const std::size_t row : rows_in_root_order(program)) {
    const ParameterSlot& slot = program.parameters[row];
    if (slot.gradient.buffer < 0) continue;
    const Root& root = state[static_cast<std::size_t>(roots.rows[row].root)];
    const auto at = [&](BufferId id) {
      return Range{id, slot.gradient.offset, slot.gradient.bytes};
    };
    Instruction step =
        make(Op::kOptStep,
             {{Role::kParameter, Access::kReadWrite, slot.parameter},
              {Role::kMoment1, Access::kReadWrite, at(root.moments1)},
              {Role::kMoment2, Access::kReadWrite, at(root.moments2)},
              {Role::kGradient, Access::kRead, slot.gradient},
              {Role::kCoefficient, Access::kRead, program.whole(*program.find_buffer("coef"))},
              {Role::kHyper, Access::kRead, program.whole(*program.find_buffer("hyper"))}});
    if (has_master) step.uses.push_back({Role::kMaster, Access::kReadWrite, at(root.master)});
    step.parameter = static_cast<int>(row);
    end.instructions.push_back(std::move(step));
  }
}

}  // namespace trireme
