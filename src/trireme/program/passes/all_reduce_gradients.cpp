// Data parallelism, naive and bucketed: every bucket is summed over dp after the backward pass.
#include <array>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

/// Buckets in order, each behind the sums over other groups of what lies in it.
std::vector<Instruction> in_bucket_order(const Program& program,
                                         const std::vector<Instruction>& sums) {
  std::vector<Instruction> all;
  const int num = num_roots(program);
  for (int root = 0; root < num; ++root) {
    if (const auto shard = program.find_buffer(root_name("grad_shards", root))) {
      if (const auto copies = replicas_of(program.request).copy_group; !copies.empty()) {
        all.push_back(all_reduce(program, program.whole(*shard), copies));
        all.back().comm->dtype = program.request.reduce;
      }
      continue;
    }
    const BufferId grads = *program.find_buffer(root_name("grads", root));
    for (const Instruction& sum : sums) {
      if (sum.uses.front().range.buffer == grads) all.push_back(sum);
    }
    all.push_back(all_reduce(program, program.whole(grads), replicas_of(program.request).group));
    all.back().comm->dtype = program.request.reduce;
  }
  return all;
}

/// "Not before the last compute instruction before call number `call`."
Wait end_of_compute(const Program& program, std::size_t call) {
  for (std::size_t back = 1; back <= call; ++back) {
    const auto& instructions = program.at(program.calls[call - back].template_index).instructions;
    for (std::size_t i = instructions.size(); i-- > 0;) {
      if (instructions[i].stream != Stream::kCompute) continue;
      return {.stream = Stream::kCompute,
              .calls_back = narrow<int>(back),
              .instruction = narrow<int>(i)};
    }
  }
  return {};
}

}  // namespace

void all_reduce_gradients(Program& program) {
  std::vector<Instruction> sums;
  if (const auto known = program.find_template("reduce")) sums = program.at(*known).instructions;
  sums = in_bucket_order(program, sums);
  if (sums.empty()) return;
  Template& reduce = before_end_of_step(program, "reduce");
  reduce.instructions = std::move(sums);
  // The communication stream would start each reduction as soon as its bucket is written. That is
  // overlap, a pass of its own: here the first reduction of a stream, and so all of them, waits for
  // the last backward instruction.
  const std::size_t index = program.calls.size() - 2;
  const Wait end_of_backward = end_of_compute(program, index);
  std::array<bool, kNumStreams> has_waited{};
  for (std::size_t i = 0; i < reduce.instructions.size(); ++i) {
    bool& done = has_waited.at(static_cast<std::size_t>(reduce.instructions[i].stream));
    if (std::exchange(done, true)) continue;
    program.calls[index].waits.push_back({.instruction = narrow<int>(i), .wait = end_of_backward});
  }
}

}  // namespace trireme
