#include "trireme/program/roots.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

/// Rewrites every operand through `moved` and drops the buffers that have moved.
void move_buffers(Program& program, const std::vector<Range>& moved) {
  std::vector<BufferId> new_ids(program.buffers.size(), -1);
  std::vector<Buffer> kept;
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    if (moved[id].buffer >= 0) continue;
    new_ids[id] = narrow<BufferId>(kept.size());
    kept.push_back(std::move(program.buffers[id]));
  }
  const auto rewrite = [&](Range& range) {
    if (range.buffer < 0) return;
    const Range& target = moved[static_cast<std::size_t>(range.buffer)];
    if (target.buffer >= 0) range = {target.buffer, target.offset + range.offset, range.bytes};
    range.buffer = new_ids[static_cast<std::size_t>(range.buffer)];
  };
  for (Template& item : program.templates) {
    for (Instruction& instruction : item.instructions) {
      for (Use& use : instruction.uses) rewrite(use.range);
    }
  }
  for (ParameterSlot& slot : program.parameters) {
    rewrite(slot.parameter);
    rewrite(slot.gradient);
    if (slot.head_gradient) rewrite(*slot.head_gradient);
  }
  program.buffers = std::move(kept);
}

}  // namespace

ParameterRoots single_root(const Program& program) {
  ParameterRoots roots;
  std::int64_t offset = 0;
  for (const ParameterSlot& slot : program.parameters) {
    const bool is_held = slot.parameter.buffer >= 0;
    roots.rows.push_back({.root = is_held ? 0 : -1, .offset = is_held ? offset : 0});
    offset += slot.parameter.bytes;
  }
  roots.bytes = {round_up(offset, kAlignBytes)};
  return roots;
}

ParameterRoots roots_of(const Program& program) {
  ParameterRoots roots;
  std::vector<BufferId> ids;
  for (int root = 0; root < num_roots(program); ++root) {
    ids.push_back(*program.find_buffer(root_name("params", root)));
    roots.bytes.push_back(program.buffer(ids.back()).bytes);
  }
  for (const ParameterSlot& slot : program.parameters) {
    ParameterRoots::Row& row = roots.rows.emplace_back();
    for (std::size_t root = 0; root < ids.size(); ++root) {
      if (ids[root] == slot.parameter.buffer)
        row = {.root = narrow<int>(root), .offset = slot.parameter.offset};
    }
    TRI_CHECK((row.root >= 0) == (slot.parameter.buffer >= 0));
  }
  return roots;
}

void move_into_roots(Program& program, const ParameterRoots& roots) {
  const std::size_t num_old = program.buffers.size();
  std::vector<Range> moved(num_old);
  std::vector<BufferId> params, grads;
  for (std::size_t root = 0; root < roots.bytes.size(); ++root) {
    const int index = narrow<int>(root);
    params.push_back(program.add_buffer({.name = root_name("params", index),
                                         .kind = MemoryKind::kParameters,
                                         .content = Content::kState,
                                         .bytes = roots.bytes[root]}));
    if (program.kind != ProgramKind::kTrain) continue;
    grads.push_back(program.add_buffer({.name = root_name("grads", index),
                                        .kind = MemoryKind::kGradients,
                                        .content = Content::kStep,
                                        .bytes = roots.bytes[root]}));
  }
  for (std::size_t row = 0; row < program.parameters.size(); ++row) {
    const ParameterSlot& slot = program.parameters[row];
    if (!program.holds(row)) continue;
    const auto root = static_cast<std::size_t>(roots.rows[row].root);
    const std::int64_t offset = roots.rows[row].offset;
    moved[static_cast<std::size_t>(slot.parameter.buffer)] = {params[root], offset,
                                                              slot.parameter.bytes};
    if (slot.gradient.buffer < 0) continue;
    moved[static_cast<std::size_t>(slot.gradient.buffer)] = {grads[root], offset,
                                                             slot.gradient.bytes};
  }
  moved.resize(program.buffers.size());
  move_buffers(program, moved);
}

int num_roots(const Program& program) {
  int count = 0;
  while (program.find_buffer(root_name("params", count))) ++count;
  return count;
}

std::string root_name(std::string_view kind, int root) {
  return fmt::format("{}.{}", kind, root);
}

std::vector<std::size_t> rows_in_root_order(const Program& program) {
  std::vector<std::size_t> order;
  for (std::size_t row = 0; row < program.parameters.size(); ++row) {
    if (program.holds(row)) order.push_back(row);
  }
  const auto place = [&](std::size_t row) {
    const Range& range = program.parameters[row].parameter;
    return std::pair(range.buffer, range.offset);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  return order;
}

Shard shard_of(std::int64_t bytes, int num_ranks, int rank) {
  const std::int64_t shard_bytes = div_exact(bytes, num_ranks);
  return {.begin = rank * shard_bytes, .end = (rank + 1) * shard_bytes};
}

}  // namespace trireme
