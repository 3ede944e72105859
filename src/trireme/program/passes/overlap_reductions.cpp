// Overlap: a bucket's reduction starts right after the last write into the bucket.
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {

void overlap_reductions(Program& program) {
  // Without the wait for the end of the backward pass each reduction waits for what it reads alone:
  // the last writer of its bucket, which the events pass finds by def-use.
  const int reduce = program.find_template("reduce").value_or(-1);
  for (Call& call : program.calls) {
    if (call.template_index == reduce) call.waits.clear();
  }
}

}  // namespace trireme
