// Overlap: a bucket's reduction starts right after the last write into the bucket.
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void overlap_reductions(Program& program) {
  const int reduce = *program.find_template("reduce");
  std::vector<Instruction> reductions = std::move(program.at(reduce).instructions);
  auto& backward = program.at(last_micro_template(program)).instructions;
  for (Instruction& reduction : reductions) {
    const int writer = last_writer(backward, reduction.uses.front().range);
    TRI_CHECK(writer >= 0);
    reduction.waits.clear();  // for the end of the backward pass
    backward.insert(backward.begin() + writer + 1, reduction);
  }
  erase_template(program, reduce);
}

}  // namespace trireme
