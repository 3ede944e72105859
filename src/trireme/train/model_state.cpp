#include "trireme/train/model_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

constexpr std::int64_t kFloatBytes = 4;

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
      table_(program.request.spec),
      roots_(roots_of(program)),
      dp_(program.request.layout.dp),
      dp_rank_(program.request.layout.mesh().coord_of(program.request.rank).dp) {}

void ModelState::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
    const auto values = executor_.values<float>(program_index_, program_.parameters[i].parameter);
    init_elems(table_.rows()[i], seed, 0, values.data(), std::ssize(values));
  }
}

std::vector<StateTensor> ModelState::tensors(StateKind kind, std::string_view prefix,
                                             std::string_view suffix) const {
  std::vector<StateTensor> tensors;
  for (std::int64_t row = 0; row < table_.size(); ++row) {
    const auto& views = table_.rows()[static_cast<std::size_t>(row)].views;
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
  return table_.rows().at(static_cast<std::size_t>(tensor.row));
}

const ParameterView& ModelState::view(const StateTensor& tensor) const {
  return row(tensor).views.at(tensor.view);
}

TensorSpec ModelState::spec_of(const StateTensor& tensor) const {
  std::vector<std::int64_t> shape = row(tensor).shape;
  shape.front() = view(tensor).num_rows;
  if (view(tensor).transposed_in_file) std::swap(shape.at(0), shape.at(1));
  return {.name = tensor.name, .dtype = DType::kF32, .shape = std::move(shape)};
}

bool ModelState::is_sharded(StateKind kind) const {
  return kind != StateKind::kParameter && program_.request.layout.zero == 1 && dp_ > 1;
}

Range ModelState::full_range(const StateTensor& tensor) const {
  const std::int64_t row_bytes = row(tensor).row_elems() * kFloatBytes;
  const ParameterRoots::Row& at = roots_.rows.at(static_cast<std::size_t>(tensor.row));
  return {.buffer = at.root,
          .offset = at.offset + view(tensor).first_row * row_bytes,
          .bytes = view(tensor).num_rows * row_bytes};
}

ModelState::Piece ModelState::piece_of(const StateTensor& tensor, int rank) const {
  const Range full = full_range(tensor);
  Shard shard{.begin = 0,
              .end = rank == 0 ? roots_.bytes.at(static_cast<std::size_t>(full.buffer)) : 0};
  if (is_sharded(tensor.kind))
    shard = shard_of(roots_.bytes.at(static_cast<std::size_t>(full.buffer)), dp_, rank);
  const std::int64_t begin = std::max(full.offset, shard.begin);
  const std::int64_t end = std::min(full.offset + full.bytes, shard.end);
  if (begin >= end) return {};
  const BufferId buffer = *program_.find_buffer(root_name(buffer_kind(tensor.kind), full.buffer));
  const bool is_full_buffer =
      program_.buffer(buffer).bytes == roots_.bytes.at(static_cast<std::size_t>(full.buffer));
  const std::int64_t origin = is_full_buffer ? 0 : shard.begin;
  Piece piece{.begin = (begin - full.offset) / kFloatBytes,
              .num_elems = (end - begin) / kFloatBytes};
  if (rank == dp_rank_)
    piece.values = executor_.values<float>(program_index_, {buffer, begin - origin, end - begin});
  return piece;
}

std::vector<float> ModelState::gather(const StateTensor& tensor, Communicator* group) const {
  const bool is_root = dp_rank_ == 0;
  std::vector<float> full;
  if (is_root) full.resize(static_cast<std::size_t>(full_range(tensor).bytes / kFloatBytes));
  for (int rank = 0; rank < dp_; ++rank) {
    const Piece piece = piece_of(tensor, rank);
    if (piece.num_elems == 0) continue;
    const std::span<float> target =
        is_root ? std::span<float>(full).subspan(static_cast<std::size_t>(piece.begin),
                                                 static_cast<std::size_t>(piece.num_elems))
                : std::span<float>();
    if (rank == 0) {
      if (is_root) std::copy(piece.values.begin(), piece.values.end(), target.begin());
    } else if (is_root) {
      group->recv(std::as_writable_bytes(target), rank, 0);
    } else if (rank == dp_rank_) {
      group->send(std::as_bytes(piece.values), 0, 0);
    }
  }
  if (is_root && view(tensor).transposed_in_file) {
    return transposed(full, view(tensor).num_rows, row(tensor).row_elems());
  }
  return full;
}

void ModelState::store(const StateTensor& tensor, const std::vector<float>& values) {
  const bool is_transposed = view(tensor).transposed_in_file;
  const std::vector<float> in_root_order =
      is_transposed ? transposed(values, row(tensor).row_elems(), view(tensor).num_rows) : values;
  if (!is_sharded(tensor.kind)) {
    Range range = full_range(tensor);
    range.buffer = *program_.find_buffer(root_name(buffer_kind(tensor.kind), range.buffer));
    const auto target = executor_.values<float>(program_index_, range);
    std::copy(in_root_order.begin(), in_root_order.end(), target.begin());
    return;
  }
  const Piece piece = piece_of(tensor, dp_rank_);
  std::copy_n(in_root_order.begin() + piece.begin, piece.values.size(), piece.values.begin());
}

bool ModelState::has_finite_parameters() const {
  return std::all_of(program_.parameters.begin(), program_.parameters.end(),
                     [&](const ParameterSlot& slot) {
                       const auto values = executor_.values<float>(program_index_, slot.parameter);
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
      std::uint16_t half = 0;
      std::memcpy(&half, raw.data() + 2 * i, 2);
      values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
    }
  } else {
    throw ResourceError(
        fmt::format("[checkpoint] tensor {} has type {}; weights must be F32 or BF16", name,
                    dtype_name(info.dtype)));
  }
  return values;
}

}  // namespace trireme
