// ZeRO-2: within the backward pass of a micro-batch each bucket is reduced as soon as it is
// complete and added to the shard that this rank keeps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

/// Index of the last backward part that writes the buffer; nothing if none does.
std::optional<std::size_t> last_writer(const Template& item, BufferId buffer) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < item.instructions.size(); ++i) {
    if (!is_backward(item.instructions[i].op)) continue;
    for (const Use& use : item.instructions[i].uses) {
      if (use.writes() && use.range.buffer == buffer) last = i;
    }
  }
  return last;
}

/// Within a micro-batch the first writer of each gradient writes, later ones (chunks of tokens)
/// add.
void add_after_first_write(Template& item, BufferId grads) {
  std::set<std::int64_t> written;
  for (Instruction& instruction : item.instructions) {
    for (Use& use : instruction.uses) {
      if (use.access != Access::kWrite || use.range.buffer != grads) continue;
      if (!written.insert(use.range.offset).second) use.access = Access::kAccumulate;
    }
  }
}

/// One of the rows whose gradients are in the buffer; nothing if all of them are frozen.
std::optional<std::size_t> first_row(const Program& program, BufferId grads) {
  const auto found =
      std::find_if(program.parameters.begin(), program.parameters.end(),
                   [grads](const ParameterSlot& slot) { return slot.gradient.buffer == grads; });
  if (found == program.parameters.end()) return std::nullopt;
  return static_cast<std::size_t>(found - program.parameters.begin());
}

/// What follows the last writer of a bucket: sums over other groups, and the reduction.
std::vector<Instruction> reductions(const Program& program, const LocalModel& model, BufferId grads,
                                    BufferId shard) {
  const Replicas replicas = replicas_of(program.request);
  std::vector<Instruction> all;
  for (const std::size_t row : rows_in_root_order(program)) {
    if (program.parameters[row].gradient.buffer != grads) continue;
    for (const std::string_view group : model.gradient_groups(row))
      all.push_back(sum_of_gradient(program, row, group));
  }
  Instruction reduction =
      reduce_scatter(program, program.whole(grads), program.whole(shard), replicas.shard_group);
  reduction.find(Role::kData)->access = Access::kReadWrite;  // its own part gathers the sum
  reduction.comm->dtype = program.request.reduce;
  all.push_back(std::move(reduction));
  return all;
}

}  // namespace

void shard_gradients(Program& program, const LocalModel& model) {
  const int num_shards = replicas_of(program.request).num_shards;
  const int num = num_roots(program);
  for (int root = 0; root < num; ++root) {
    const BufferId grads = *program.find_buffer(root_name("grads", root));
    const auto row = first_row(program, grads);
    if (!row || !model.is_reduced_at_once(*row)) continue;
    const BufferId shard =
        program.add_buffer({.name = root_name("grad_shards", root),
                            .kind = MemoryKind::kGradients,
                            .content = Content::kStep,
                            .bytes = div_exact(program.buffer(grads).bytes, num_shards)});
    const std::vector<Instruction> behind = reductions(program, model, grads, shard);
    for (Template& item : program.templates) {
      const auto last = last_writer(item, grads);
      if (!last) continue;
      add_after_first_write(item, grads);
      item.instructions.insert(item.instructions.begin() + static_cast<std::ptrdiff_t>(*last) + 1,
                               behind.begin(), behind.end());
    }
  }
}

}  // namespace trireme
