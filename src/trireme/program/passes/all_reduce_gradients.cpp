// Data parallelism, naive and bucketed: every bucket is summed over dp after the backward pass.
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void all_reduce_gradients(Program& program) {
  const int reduce = program.template_index("reduce");
  for (int root = 0; root < num_roots(program); ++root) {
    const BufferId grads = *program.find_buffer(root_name("grads", root));
    program.at(reduce).instructions.push_back(all_reduce(program, program.whole(grads)));
  }
  // The communication stream would start each reduction as soon as its bucket is written. That is
  // overlap, a pass of its own: here the first reduction, and so all of them, waits for the last
  // backward instruction.
  const auto& backward = program.at(last_micro_template(program)).instructions;
  const Wait end_of_backward{.stream = Stream::kCompute,
                             .calls_back = 1,
                             .instruction = static_cast<int>(backward.size()) - 1};
  program.calls.insert(
      program.calls.end() - 1,
      {.template_index = reduce, .waits = {{.instruction = 0, .wait = end_of_backward}}});
}

}  // namespace trireme
