// Lifetimes: a transient buffer lives from its first write to the first compute instruction of the
// same template that all its uses, on any stream, come before (or that is its last use itself).
#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "trireme/base/errors.h"
#include "trireme/program/order.h"
#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

/// Last instruction of the template on each stream that uses each of its transient buffers.
using LastUses = std::map<BufferId, Clock>;

LastUses last_uses(const Program& program, const Template& item) {
  Clock none;
  none.fill(-1);
  LastUses last;
  for (std::size_t i = 0; i < item.instructions.size(); ++i) {
    for (const Use& use : item.instructions[i].uses) {
      if (program.buffer(use.range.buffer).content != Content::kTransient) continue;
      Clock& uses = last.try_emplace(use.range.buffer, none).first->second;
      uses.at(static_cast<std::size_t>(item.instructions[i].stream)) = static_cast<int>(i);
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
    for (const auto& [id, last] : last_uses(program, program.templates[index])) {
      const int end = end_of_life(program, order, static_cast<int>(c), last);
      program.templates[index].instructions[static_cast<std::size_t>(end)].frees.push_back(id);
    }
  }
}

}  // namespace trireme
