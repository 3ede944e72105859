#include "trireme/train/model_state.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/replicas.h"

namespace trireme {
namespace {

/// (rows, columns) row-major → (columns, rows) row-major.
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> out(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(c * rows + r)] =
          values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return out;
}

std::string_view buffer_kind(StateKind kind) {
  switch (kind) {
    case StateKind::kParameter:
      return "params";
    case StateKind::kMaster:
      return "master";
    case StateKind::kMoment1:
      return "moments1";
    case StateKind::kMoment2:
      return "moments2";
    case StateKind::kGradient:
      return "grads";
  }
  return "";
}

}  // namespace

ModelState::ModelState(const Program& program, RankExecutor& executor, int program_index)
    : program_(program),
      executor_(executor),
      program_index_(program_index),
      model_(program),
      roots_(roots_of(program)) {}

void ModelState::initialize(std::uint64_t seed) {
  std::vector<float> values;
  for (const StateKind kind : weight_kinds()) {
    for (const StateTensor& tensor : tensors(kind, "", "")) {
      const std::int64_t first = view(tensor).first_row * row(tensor).row_elems();
      for (const Run& run : runs_of(tensor)) {
        values.resize(static_cast<std::size_t>(run.count));
        init_elems(row(tensor), seed, first + run.begin, values.data(), run.count);
        write(run, values.data());
      }
    }
  }
}

std::vector<StateTensor> ModelState::tensors(StateKind kind, std::string_view prefix,
                                             std::string_view suffix) const {
  std::vector<StateTensor> tensors;
  for (std::int64_t row = 0; row < table().size(); ++row) {
    const auto& views = table().rows()[static_cast<std::size_t>(row)].views;
    for (std::size_t view = 0; view < views.size(); ++view) {
      tensors.push_back({.name = fmt::format("{}{}{}", prefix, views[view].name, suffix),
                         .kind = kind,
                         .row = row,
                         .view = view});
    }
  }
  return tensors;
}

const Parameter& ModelState::row(const StateTensor& tensor) const {
  return table().rows().at(static_cast<std::size_t>(tensor.row));
}

const ParameterView& ModelState::view(const StateTensor& tensor) const {
  return row(tensor).views.at(tensor.view);
}

TensorSpec ModelState::spec_of(const StateTensor& tensor) const {
  std::vector<std::int64_t> shape = row(tensor).shape;
  shape.front() = view(tensor).num_rows;
  if (view(tensor).transposed_in_file) std::swap(shape.at(0), shape.at(1));
  const DType dtype = tensor.kind == StateKind::kParameter ? program_.request.compute : DType::kF32;
  return {.name = tensor.name, .dtype = dtype, .shape = std::move(shape)};
}

std::vector<StateKind> ModelState::weight_kinds() const {
  if (!program_.find_buffer(root_name("master", 0))) return {StateKind::kParameter};
  return {StateKind::kParameter, StateKind::kMaster};
}

StateKind ModelState::held_as(StateKind kind) const {
  return kind == StateKind::kMaster ? weight_kinds().back() : kind;
}

bool ModelState::is_sharded(StateKind kind) const {
  return held_as(kind) != StateKind::kParameter && replicas_of(program_.request).is_sharded();
}

std::int64_t ModelState::num_elems(const StateTensor& tensor) const {
  return view(tensor).num_rows * row(tensor).row_elems();
}

std::vector<ModelState::Run> ModelState::runs_of(const StateTensor& tensor) const {
  const auto number = static_cast<std::size_t>(tensor.row);
  if (!program_.holds(number)) return {};
  const ParameterRoots::Row& place = roots_.rows.at(number);
  const StateKind kind = held_as(tensor.kind);
  const std::int64_t root_elems = roots_.elems.at(static_cast<std::size_t>(place.root));
  const BufferId buffer = *program_.find_buffer(root_name(buffer_kind(kind), place.root));
  const std::int64_t elem_bytes = dtype_bytes(program_.buffer(buffer).dtype);
  const Replicas replicas = replicas_of(program_.request);
  Shard owned{.begin = 0, .end = root_elems};
  if (is_sharded(kind)) owned = shard_of(root_elems, replicas.num_shards, replicas.shard);
  const bool is_whole = program_.buffer(buffer).bytes == root_elems * elem_bytes;
  const std::int64_t origin = is_whole ? 0 : owned.begin;
  const ParameterShard shard = model_.shard(number);
  const ParameterView& rows = view(tensor);
  std::vector<Run> runs;
  for (const ShardBlock& block : shard.blocks) {
    const std::int64_t first = std::max(block.first_row, rows.first_row);
    const std::int64_t end =
        std::min(block.first_row + block.num_rows, rows.first_row + rows.num_rows);
    for (std::int64_t r = first; r < end; ++r) {
      const std::int64_t at =
          place.offset + (block.shard_row + r - block.first_row) * shard.num_columns;
      const std::int64_t begin = std::max(at, owned.begin);
      const std::int64_t stop = std::min(at + shard.num_columns, owned.end);
      if (begin >= stop) continue;
      const std::int64_t in_row = block.first_column + begin - at;
      runs.push_back(
          {.begin = (r - rows.first_row) * row(tensor).row_elems() + in_row,
           .count = stop - begin,
           .range = {buffer, (begin - origin) * elem_bytes, (stop - begin) * elem_bytes}});
    }
  }
  return runs;
}

void ModelState::read(const Run& run, float* to) const {
  if (program_.buffer(run.range.buffer).dtype == DType::kBf16) {
    const auto values = executor_.values<Bf16>(program_index_, run.range);
    std::transform(values.begin(), values.end(), to, [](Bf16 value) { return to_float(value); });
  } else {
    const auto values = executor_.values<float>(program_index_, run.range);
    std::copy(values.begin(), values.end(), to);
  }
}

void ModelState::write(const Run& run, const float* from) {
  if (program_.buffer(run.range.buffer).dtype == DType::kBf16) {
    const auto values = executor_.values<Bf16>(program_index_, run.range);
    std::transform(from, from + run.count, values.begin(), to_bf16);
  } else {
    std::copy_n(from, run.count, executor_.values<float>(program_index_, run.range).begin());
  }
}

bool ModelState::is_owner(const StateTensor& tensor, int rank) const {
  BuildRequest other = program_.request;
  other.rank = rank;
  const Replicas replicas = replicas_of(other);
  const MeshCoord coord = other.layout.mesh().coord_of(rank);
  const int stage = model_.stages_of_row(static_cast<std::size_t>(tensor.row)).front();
  int holder = 0;
  while (!model_.pipeline().holds(holder, stage)) ++holder;
  return coord.pp == holder &&
         replicas.rank < (is_sharded(tensor.kind) ? replicas.num_shards : 1) &&
         (coord.tp == 0 || is_cut(row(tensor).tp_sharding));
}

/// Where the runs go, then their values.
void ModelState::send_runs(const StateTensor& tensor, Communicator& world) const {
  std::vector<std::int64_t> places;
  std::vector<float> values;
  for (const Run& run : runs_of(tensor)) {
    places.push_back(run.begin);
    places.push_back(run.count);
    values.resize(values.size() + static_cast<std::size_t>(run.count));
    read(run, values.data() + values.size() - run.count);
  }
  const std::int64_t num_places = std::ssize(places);
  world.send(std::as_bytes(std::span(&num_places, 1)), 0, 0);
  if (places.empty()) return;
  world.send(std::as_bytes(std::span(places)), 0, 1);
  world.send(std::as_bytes(std::span(values)), 0, 2);
}

void ModelState::receive_runs(int rank, Communicator& world, std::vector<float>& full) const {
  std::int64_t num_places = 0;
  world.recv(std::as_writable_bytes(std::span(&num_places, 1)), rank, 0);
  if (num_places == 0) return;
  std::vector<std::int64_t> places(static_cast<std::size_t>(num_places));
  world.recv(std::as_writable_bytes(std::span(places)), rank, 1);
  std::int64_t num_values = 0;
  for (std::size_t i = 1; i < places.size(); i += 2) num_values += places[i];
  std::vector<float> values(static_cast<std::size_t>(num_values));
  world.recv(std::as_writable_bytes(std::span(values)), rank, 2);
  auto next = values.begin();
  for (std::size_t i = 0; i < places.size(); i += 2) {
    std::copy_n(next, places[i + 1], full.begin() + places[i]);
    next += places[i + 1];
  }
}

std::vector<float> ModelState::gather(const StateTensor& tensor, Communicator* world) const {
  const int own = program_.request.rank;
  std::vector<float> full;
  if (own == 0) full.resize(static_cast<std::size_t>(num_elems(tensor)));
  for (int rank = 0; rank < program_.request.layout.world(); ++rank) {
    if (!is_owner(tensor, rank)) continue;
    if (rank == 0 && own == 0) {
      for (const Run& run : runs_of(tensor)) read(run, full.data() + run.begin);
    } else if (own == 0) {
      receive_runs(rank, *world, full);
    } else if (own == rank) {
      send_runs(tensor, *world);
    }
  }
  if (own == 0 && view(tensor).transposed_in_file)
    return transposed(full, view(tensor).num_rows, row(tensor).row_elems());
  return full;
}

void ModelState::store(const StateTensor& tensor, const std::vector<float>& values) {
  const bool is_transposed = view(tensor).transposed_in_file;
  const std::vector<float> in_root_order =
      is_transposed ? transposed(values, row(tensor).row_elems(), view(tensor).num_rows) : values;
  const bool is_weight = tensor.kind == StateKind::kParameter || tensor.kind == StateKind::kMaster;
  for (const StateKind kind : is_weight ? weight_kinds() : std::vector{tensor.kind}) {
    StateTensor part = tensor;
    part.kind = kind;
    for (const Run& run : runs_of(part)) write(run, in_root_order.data() + run.begin);
  }
}

bool ModelState::has_finite_parameters() const {
  std::vector<float> values;
  return std::all_of(
      program_.parameters.begin(), program_.parameters.end(), [&](const ParameterSlot& slot) {
        if (slot.parameter.buffer < 0) return true;
        values.resize(static_cast<std::size_t>(trireme::num_elems(program_, slot.parameter)));
        read({.count = std::ssize(values), .range = slot.parameter}, values.data());
        return std::all_of(values.begin(), values.end(),
                           [](float value) { return std::isfinite(value); });
      });
}

std::vector<float> read_tensor(const ShardedReader& reader, const std::string& name,
                               const std::vector<std::int64_t>& shape) {
  const TensorInfo& info = reader.at(name);
  if (info.shape != shape) {
    throw ResourceError(
        fmt::format("[checkpoint] tensor {} has shape [{}], the model needs [{}]; check the sizes "
                    "in [model] or in config.json",
                    name, fmt::join(info.shape, ", "), fmt::join(shape, ", ")));
  }
  std::vector<std::byte> raw(static_cast<std::size_t>(info.bytes));
  reader.read(name, raw);
  const std::size_t count = raw.size() / static_cast<std::size_t>(dtype_bytes(info.dtype));
  std::vector<float> values(count);
  if (info.dtype == DType::kF32) {
    std::memcpy(values.data(), raw.data(), raw.size());
  } else if (info.dtype == DType::kBf16) {
    for (std::size_t i = 0; i < count; ++i) {
      Bf16 value{};
      std::memcpy(&value, raw.data() + i * sizeof(Bf16), sizeof(Bf16));
      values[i] = to_float(value);
    }
  } else {
    throw ResourceError(
        fmt::format("[checkpoint] tensor {} has type {}; weights must be F32 or BF16", name,
                    dtype_name(info.dtype)));
  }
  return values;
}

}  // namespace trireme
