// Lifetimes: a transient buffer lives from its first write to the first compute instruction of the
// same template that all its uses, on any stream, come before (or that is its last use itself).
#include <algorithm>
#include <cstddef>
#include <vector>

#include "trireme/base/errors.h"
#include "trireme/program/order.h"
#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

/// Last instruction of the template on each stream that uses the buffer.
using LastUses = std::vector<Clock>;

LastUses last_uses(const Program& program, const Template& item) {
  Clock none;
  none.fill(-1);
  LastUses last(program.buffers.size(), none);
  for (std::size_t i = 0; i < item.instructions.size(); ++i) {
    for (const Use& use : item.instructions[i].uses) {
      last[static_cast<std::size_t>(use.range.buffer)]
          [static_cast<std::size_t>(item.instructions[i].stream)] = static_cast<int>(i);
    }
  }
  return last;
}

/// Index in the template of the instruction that ends the life of a buffer with these last uses.
int end_of_life(const Program& program, const StepOrder& order, int call, const Clock& last) {
  const auto& instructions =
      program.at(program.calls[static_cast<std::size_t>(call)].template_index).instructions;
  const auto compute = static_cast<std::size_t>(Stream::kCompute);
  for (int i = std::max(last[compute], 0); i < static_cast<int>(instructions.size()); ++i) {
    if (instructions[static_cast<std::size_t>(i)].stream != Stream::kCompute) continue;
    bool is_after_all = true;
    for (int s = 0; s < kNumStreams; ++s) {
      const int use = last[static_cast<std::size_t>(s)];
      if (use < 0 || (static_cast<std::size_t>(s) == compute && use <= i)) continue;
      is_after_all =
          is_after_all && order.is_ordered(order.position(call, use), static_cast<Stream>(s),
                                           order.position(call, i));
    }
    if (is_after_all) return i;
  }
  TRI_CHECK(false && "a transient buffer outlives its template");
  return -1;
}

}  // namespace

void derive_lifetimes(Program& program) {
  const StepOrder order(program);
  std::vector<bool> is_done(program.templates.size(), false);
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const auto index = static_cast<std::size_t>(program.calls[c].template_index);
    if (is_done[index]) continue;
    is_done[index] = true;
    const LastUses last = last_uses(program, program.templates[index]);
    for (std::size_t id = 0; id < program.buffers.size(); ++id) {
      const bool is_used =
          std::any_of(last[id].begin(), last[id].end(), [](int use) { return use >= 0; });
      if (program.buffers[id].content != Content::kTransient || !is_used) continue;
      const int end = end_of_life(program, order, static_cast<int>(c), last[id]);
      program.templates[index].instructions[static_cast<std::size_t>(end)].frees.push_back(
          static_cast<BufferId>(id));
    }
  }
}

}  // namespace trireme
