// ZeRO-2: within the backward pass of a micro-batch each bucket is reduced as soon as it is
// complete and added to the shard that this rank keeps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
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

/// Of each buffer of gradients that a micro-batch reduces: what follows its last writer.
using Reductions = std::map<BufferId, std::vector<Instruction>>;

/// Index of the last backward part of the template that writes each of the buffers.
std::map<BufferId, std::size_t> last_writers(const Template& item, const Reductions& reductions) {
  std::map<BufferId, std::size_t> last;
  for (std::size_t i = 0; i < item.instructions.size(); ++i) {
    if (!is_backward(item.instructions[i].op)) continue;
    for (const Use& use : item.instructions[i].uses) {
      if (use.writes() && reductions.contains(use.range.buffer)) last[use.range.buffer] = i;
    }
  }
  return last;
}

/// Within a micro-batch the first writer of each gradient writes, later ones (chunks of tokens)
/// add.
void add_after_first_write(Template& item, const std::map<BufferId, std::size_t>& last) {
  std::set<std::pair<BufferId, std::int64_t>> written;
  for (Instruction& instruction : item.instructions) {
    for (Use& use : instruction.uses) {
      if (use.access != Access::kWrite || !last.contains(use.range.buffer)) continue;
      if (!written.insert({use.range.buffer, use.range.offset}).second)
        use.access = Access::kAccumulate;
    }
  }
}

void reduce_behind_last_writers(Template& item, const Reductions& reductions) {
  const std::map<BufferId, std::size_t> last = last_writers(item, reductions);
  if (last.empty()) return;
  add_after_first_write(item, last);
  // Of the buckets that one instruction completes, the last is reduced first.
  std::multimap<std::size_t, const std::vector<Instruction>*> behind;
  for (auto each = last.rbegin(); each != last.rend(); ++each)
    behind.emplace(each->second, &reductions.at(each->first));
  std::vector<Instruction> all;
  for (std::size_t i = 0; i < item.instructions.size(); ++i) {
    all.push_back(std::move(item.instructions[i]));
    const auto [first, end] = behind.equal_range(i);
    for (auto each = first; each != end; ++each)
      all.insert(all.end(), each->second->begin(), each->second->end());
  }
  item.instructions = std::move(all);
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
  Reductions all;
  for (int root = 0; root < num; ++root) {
    const BufferId grads = *program.find_buffer(root_name("grads", root));
    const auto row = first_row(program, grads);
    if (!row || !model.is_reduced_at_once(*row)) continue;
    const BufferId shard =
        program.add_buffer({.name = root_name("grad_shards", root),
                            .kind = MemoryKind::kGradients,
                            .content = Content::kStep,
                            .bytes = div_exact(program.buffer(grads).bytes, num_shards)});
    all.emplace(grads, reductions(program, model, grads, shard));
  }
  for (Template& item : program.templates) reduce_behind_last_writers(item, all);
}

}  // namespace trireme
