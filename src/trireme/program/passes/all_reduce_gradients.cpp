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
  program.calls.insert(program.calls.end() - 1, {.template_index = reduce});
}

}  // namespace trireme
