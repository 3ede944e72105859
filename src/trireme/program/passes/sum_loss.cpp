// Loss and token count: one scale site, 1/N with N the valid target tokens of the whole global
// batch.
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
#include "trireme/program/steps.h"

namespace trireme {

void sum_loss(Program& program) {
  const Replicas replicas = replicas_of(program.request);
  const BufferId loss = *program.find_buffer("loss");
  const BufferId num_tokens = *program.find_buffer("num_tokens");
  Template& begin = begin_of_step(program);
  begin.instructions.push_back(make(Op::kZero, {{Role::kY, Access::kWrite, program.whole(loss)}}));
  begin.instructions.push_back(
      make(Op::kCount, {{Role::kY, Access::kWrite, program.whole(num_tokens)}}));
  if (replicas.size > 1)
    begin.instructions.push_back(all_reduce(program, program.whole(num_tokens), replicas.group));
  if (program.kind == ProgramKind::kTrain) {
    const BufferId inverse = *program.find_buffer("inv_tokens");
    begin.instructions.push_back(
        make(Op::kInverse, {{Role::kX, Access::kRead, program.whole(num_tokens)},
                            {Role::kY, Access::kWrite, program.whole(inverse)}}));
  }
  Template& end = end_of_step(program);
  // The loss arises in the last stage; the others add zero. All ranks of a tp group have all of it.
  if (replicas.size > 1)
    end.instructions.push_back(all_reduce(program, program.whole(loss), replicas.group));
  if (program.request.layout.pp > 1)
    end.instructions.push_back(all_reduce(program, program.whole(loss), axis_name(Axis::kPp)));
}

}  // namespace trireme
