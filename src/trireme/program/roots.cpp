#include "trireme/program/roots.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/replicas.h"

namespace trireme {
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
  program.set_buffers(std::move(kept));
}

std::int64_t root_unit(const Program& program) {
  return kAlignBytes / dtype_bytes(program.request.compute);
}

ParameterRoots single_root(const Program& program) {
  ParameterRoots roots;
  std::int64_t offset = 0;
  for (const ParameterSlot& slot : program.parameters) {
    const bool is_held = slot.parameter.buffer >= 0;
    roots.rows.push_back({.root = is_held ? 0 : -1, .offset = is_held ? offset : 0});
    offset += num_elems(program, slot.parameter);
  }
  roots.elems = {round_up(offset, root_unit(program))};
  return roots;
}

ParameterRoots roots_of(const Program& program) {
  ParameterRoots roots;
  std::vector<BufferId> ids;
  const int num = num_roots(program);
  for (int root = 0; root < num; ++root) {
    ids.push_back(whole_params(program, root));
    roots.elems.push_back(num_elems(program, program.whole(ids.back())));
  }
  for (const ParameterSlot& slot : program.parameters) {
    ParameterRoots::Row& row = roots.rows.emplace_back();
    for (std::size_t root = 0; root < ids.size(); ++root) {
      if (ids[root] != slot.parameter.buffer) continue;
      const std::int64_t elem_bytes = dtype_bytes(program.buffer(ids[root]).dtype);
      row = {.root = narrow<int>(root), .offset = slot.parameter.offset / elem_bytes};
    }
    TRI_CHECK((row.root >= 0) == (slot.parameter.buffer >= 0));
  }
  return roots;
}

void move_into_roots(Program& program, const ParameterRoots& roots) {
  const std::size_t num_old = program.buffers.size();
  std::vector<Range> moved(num_old);
  std::vector<BufferId> params, grads;
  for (std::size_t root = 0; root < roots.elems.size(); ++root) {
    const auto add = [&](std::string_view kind_name, MemoryKind kind, Content content,
                         DType dtype) {
      return program.add_buffer({.name = root_name(kind_name, narrow<int>(root)),
                                 .kind = kind,
                                 .content = content,
                                 .dtype = dtype,
                                 .bytes = roots.elems[root] * dtype_bytes(dtype)});
    };
    params.push_back(
        add("params", MemoryKind::kParameters, Content::kState, program.request.compute));
    if (program.kind == ProgramKind::kTrain)
      grads.push_back(add("grads", MemoryKind::kGradients, Content::kStep, DType::kF32));
  }
  for (std::size_t row = 0; row < program.parameters.size(); ++row) {
    const ParameterSlot& slot = program.parameters[row];
    if (!program.holds(row)) continue;
    const auto move_into = [&](const Range& range, const std::vector<BufferId>& buffers) {
      const BufferId root = buffers[static_cast<std::size_t>(roots.rows[row].root)];
      const std::int64_t elem_bytes = dtype_bytes(program.buffer(root).dtype);
      moved[static_cast<std::size_t>(range.buffer)] = {root, roots.rows[row].offset * elem_bytes,
                                                       range.bytes};
    };
    move_into(slot.parameter, params);
    if (slot.gradient.buffer >= 0) move_into(slot.gradient, grads);
  }
  moved.resize(program.buffers.size());
  move_buffers(program, moved);
}

Shard elems_of_row(const Program& program, const ParameterRoots& roots, std::size_t row) {
  const std::int64_t begin = roots.rows[row].offset;
  return {.begin = begin, .end = begin + num_elems(program, program.parameters[row].parameter)};
}

BufferId whole_params(const Program& program, int root) {
  if (const auto gathered = program.find_buffer(root_name("gathered", root))) return *gathered;
  return *program.find_buffer(root_name("params", root));
}

int num_roots(const Program& program) {
  return narrow<int>(
      std::count_if(program.buffers.begin(), program.buffers.end(),
                    [](const Buffer& buffer) { return buffer.name.starts_with("params."); }));
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

std::optional<RootPart> root_part(const Program& program, std::string_view kind, int root) {
  const auto buffer = program.find_buffer(root_name(kind, root));
  if (!buffer) return std::nullopt;
  const std::int64_t extent = num_elems(program, program.whole(whole_params(program, root)));
  const Replicas replicas = replicas_of(program.request);
  const bool is_whole = num_elems(program, program.whole(*buffer)) == extent;
  return RootPart{.buffer = *buffer,
                  .elems = is_whole ? Shard{.begin = 0, .end = extent}
                                    : shard_of(extent, replicas.num_shards, replicas.shard)};
}

std::optional<Range> range_in(const Program& program, const RootPart& part, Shard elems) {
  const std::int64_t begin = std::max(elems.begin, part.elems.begin);
  const std::int64_t end = std::min(elems.end, part.elems.end);
  if (begin >= end) return std::nullopt;
  const std::int64_t elem_bytes = dtype_bytes(program.buffer(part.buffer).dtype);
  return Range{part.buffer, (begin - part.elems.begin) * elem_bytes, (end - begin) * elem_bytes};
}

bool is_reduced_at_once(const Program& program, int root) {
  return program.find_buffer(root_name("grad_shards", root)).has_value();
}

std::optional<RootPart> reduced_gradients(const Program& program, int root) {
  const auto shards = root_part(program, "grad_shards", root);
  return shards ? shards : root_part(program, "grads", root);
}

Shard shard_of(std::int64_t extent, int num_ranks, int rank) {
  const std::int64_t shard = div_exact(extent, num_ranks);
  return {.begin = rank * shard, .end = (rank + 1) * shard};
}

}  // namespace trireme
