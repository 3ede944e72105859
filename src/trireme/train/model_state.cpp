#include "trireme/train/model_state.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include <fmt/format.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/program/state_shard.h"

namespace trireme {
namespace {

/// What is read from a file at once: 4 MiB in fp32.
constexpr std::int64_t kPartElems = std::int64_t{1} << 20;

/// Cuts a rectangle into whole rows, or whole columns if these are the rows of the file, of at most
/// kPartElems elements together (or one).
std::vector<Rectangle> parts_of(const Rectangle& whole, bool is_transposed_in_file) {
  const Rectangle in_file = is_transposed_in_file ? whole.transposed() : whole;
  const std::int64_t num_rows = std::max<std::int64_t>(1, kPartElems / in_file.num_columns);
  std::vector<Rectangle> parts;
  for (std::int64_t row = 0; row < in_file.num_rows; row += num_rows) {
    Rectangle part = in_file;
    part.first_row += row;
    part.num_rows = std::min(num_rows, in_file.num_rows - row);
    parts.push_back(is_transposed_in_file ? part.transposed() : part);
  }
  return parts;
}

/// Cuts elements [begin, end) of rows of `num_columns` elements into a part of a row, whole rows
/// and a part of a row.
std::vector<Rectangle> rectangles_of(Shard elems, std::int64_t num_columns) {
  std::vector<Rectangle> rectangles;
  while (elems.begin < elems.end) {
    const std::int64_t row = elems.begin / num_columns, column = elems.begin % num_columns;
    const std::int64_t left = elems.end - elems.begin;
    const bool is_whole = column == 0 && left >= num_columns;
    rectangles.push_back(
        {.first_row = row,
         .num_rows = is_whole ? left / num_columns : 1,
         .first_column = column,
         .num_columns = is_whole ? num_columns : std::min(num_columns - column, left)});
    elems.begin += rectangles.back().num_elems();
  }
  return rectangles;
}

/// Puts a rectangle's values, row after row, where they belong in the full tensor in file layout.
void place_part(const Rectangle& part, const float* values, const MatrixShape& shape,
                std::vector<float>& full) {
  if (!shape.is_transposed_in_file) {
    for_each_stretch(part, shape.num_columns, [&](std::int64_t first, std::int64_t count) {
      std::copy_n(values, count, full.begin() + first);
      values += count;
    });
    return;
  }
  for (std::int64_t r = part.first_row; r < part.first_row + part.num_rows; ++r) {
    for (std::int64_t c = part.first_column; c < part.first_column + part.num_columns; ++c)
      full[static_cast<std::size_t>(c * shape.num_rows + r)] = *values++;
  }
}

template <typename T>
bool are_finite(std::span<const T> values) {
  return std::all_of(values.begin(), values.end(),
                     [](T value) { return std::isfinite(to_float(value)); });
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

MemoryKind memory_kind(StateKind kind) {
  switch (kind) {
    case StateKind::kParameter:
      return MemoryKind::kParameters;
    case StateKind::kMaster:
      return MemoryKind::kMaster;
    case StateKind::kMoment1:
    case StateKind::kMoment2:
      return MemoryKind::kMoments;
    case StateKind::kGradient:
      break;
  }
  return MemoryKind::kGradients;
}

}  // namespace

ModelState::ModelState(const Program& program, RankExecutor& executor, int program_index)
    : program_(program),
      executor_(executor),
      program_index_(program_index),
      model_(program),
      roots_(roots_of(program)) {}

void ModelState::initialize(std::uint64_t seed) {
  for (const StateTensor& tensor : tensors(StateKind::kParameter, "", "")) {
    const std::int64_t row_elems = row(tensor).row_elems();
    fill_pieces(tensor, [&](const Rectangle& part, std::span<float> out) {
      Rectangle of_root = part;
      of_root.first_row += view(tensor).first_row;
      float* next = out.data();
      for_each_stretch(of_root, row_elems, [&](std::int64_t first, std::int64_t count) {
        init_elems(row(tensor), seed, first, next, count);
        next += count;
      });
    });
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

MatrixShape ModelState::shape_of(const StateTensor& tensor) const {
  return {.num_rows = view(tensor).num_rows,
          .num_columns = row(tensor).row_elems(),
          .is_transposed_in_file = view(tensor).transposed_in_file};
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

ModelState::HeldElems ModelState::held_elems(StateKind kind, int root) const {
  if (kind != StateKind::kGradient) {
    const RootPart part = *root_part(program_, buffer_kind(kind), root);
    return {.part = part, .complete = part.elems};
  }
  // Sums may lie in a buffer of the whole root, of which the own shard alone is complete.
  const StateShard own = state_shard(program_.request.layout, rank(), MemoryKind::kGradients);
  return {.part = *reduced_gradients(program_, root),
          .complete =
              shard_of(roots_.elems.at(static_cast<std::size_t>(root)), own.num_shards, own.index)};
}

std::vector<ModelState::Piece> ModelState::pieces_of(const StateTensor& tensor) const {
  const auto number = static_cast<std::size_t>(tensor.row);
  if (!program_.holds(number)) return {};
  const ParameterRoots::Row& at = roots_.rows.at(number);
  const HeldElems held = held_elems(held_as(tensor.kind), at.root);
  const ParameterShard shard = model_.shard(number);
  const ParameterView& rows = view(tensor);
  std::vector<Piece> pieces;
  for (const ShardBlock& block : shard.blocks) {
    const std::int64_t first = std::max(block.first_row, rows.first_row);
    const std::int64_t end =
        std::min(block.first_row + block.num_rows, rows.first_row + rows.num_rows);
    // Of the root: the block's rows that belong to the view.
    const std::int64_t begin =
        at.offset + (block.shard_row + first - block.first_row) * shard.num_columns;
    const Shard elems{
        .begin = std::max(begin, held.complete.begin) - begin,
        .end = std::min(begin + (end - first) * shard.num_columns, held.complete.end) - begin};
    for (const Rectangle& of_block : rectangles_of(elems, shard.num_columns)) {
      const std::int64_t offset =
          begin + of_block.first_row * shard.num_columns + of_block.first_column;
      Rectangle place = of_block;
      place.first_row += first - rows.first_row;
      place.first_column += block.first_column;
      pieces.push_back(
          {.place = place,
           .range = *range_in(program_, held.part,
                              {.begin = offset, .end = offset + of_block.num_elems()})});
    }
  }
  return pieces;
}

void ModelState::read(const Range& range, float* to) const {
  if (program_.buffer(range.buffer).dtype == DType::kBf16) {
    const auto values = executor_.values<Bf16>(program_index_, range);
    std::transform(values.begin(), values.end(), to, [](Bf16 value) { return to_float(value); });
  } else {
    const auto values = executor_.values<float>(program_index_, range);
    std::copy(values.begin(), values.end(), to);
  }
}

void ModelState::write(const Range& range, const float* from) {
  if (program_.buffer(range.buffer).dtype == DType::kBf16) {
    const auto values = executor_.values<Bf16>(program_index_, range);
    std::transform(from, from + values.size(), values.begin(), to_bf16);
  } else {
    const auto values = executor_.values<float>(program_index_, range);
    std::copy_n(from, values.size(), values.begin());
  }
}

/// Stores what `piece` and `part`, whose values are given, have in common.
void ModelState::write_part(const Piece& piece, const Rectangle& part, const float* values) {
  const std::int64_t elem_bytes = dtype_bytes(program_.buffer(piece.range.buffer).dtype);
  Rectangle common = intersection(piece.place, part);
  if (common.num_elems() == 0) return;
  const Rectangle all = common;
  const bool has_whole_rows =
      all.num_columns == part.num_columns && all.num_columns == piece.place.num_columns;
  if (!has_whole_rows) common.num_rows = 1;
  for (; common.first_row < all.first_row + all.num_rows; common.first_row += common.num_rows) {
    const auto index_in = [&](const Rectangle& within) {
      return (common.first_row - within.first_row) * within.num_columns + common.first_column -
             within.first_column;
    };
    write({piece.range.buffer, piece.range.offset + index_in(piece.place) * elem_bytes,
           common.num_elems() * elem_bytes},
          values + index_in(part));
  }
}

bool ModelState::is_owner(const StateTensor& tensor, int rank) const {
  const Layout& layout = program_.request.layout;
  const MeshCoord coord = layout.mesh().coord_of(rank);
  const int stage = model_.stages_of_row(static_cast<std::size_t>(tensor.row)).front();
  int holder = 0;
  while (!model_.pipeline().holds(holder, stage)) ++holder;
  return coord.pp == holder && (coord.tp == 0 || is_cut(row(tensor).tp_sharding)) &&
         state_shard(layout, rank, memory_kind(held_as(tensor.kind))).is_first_copy;
}

/// Where the pieces go, then their values.
void ModelState::send_pieces(const StateTensor& tensor, Communicator& world) const {
  std::vector<Rectangle> places;
  std::vector<float> values;
  for (const Piece& piece : pieces_of(tensor)) {
    places.push_back(piece.place);
    values.resize(values.size() + static_cast<std::size_t>(piece.place.num_elems()));
    read(piece.range, values.data() + values.size() - piece.place.num_elems());
  }
  const std::int64_t num_places = std::ssize(places);
  world.send(std::as_bytes(std::span(&num_places, 1)), 0, 0);
  if (places.empty()) return;
  world.send(std::as_bytes(std::span(places)), 0, 1);
  world.send(std::as_bytes(std::span(values)), 0, 2);
}

void ModelState::receive_pieces(const StateTensor& tensor, int rank, Communicator& world,
                                std::vector<float>& full) const {
  std::int64_t num_places = 0;
  world.recv(std::as_writable_bytes(std::span(&num_places, 1)), rank, 0);
  if (num_places == 0) return;
  std::vector<Rectangle> places(static_cast<std::size_t>(num_places));
  world.recv(std::as_writable_bytes(std::span(places)), rank, 1);
  std::int64_t num_values = 0;
  for (const Rectangle& place : places) num_values += place.num_elems();
  std::vector<float> values(static_cast<std::size_t>(num_values));
  world.recv(std::as_writable_bytes(std::span(values)), rank, 2);
  const float* next = values.data();
  for (const Rectangle& place : places) {
    place_part(place, next, shape_of(tensor), full);
    next += place.num_elems();
  }
}

std::vector<float> ModelState::gather(const StateTensor& tensor, Communicator* world) const {
  const MatrixShape shape = shape_of(tensor);
  std::vector<float> full, values;
  if (rank() == 0) full.resize(static_cast<std::size_t>(shape.num_elems()));
  for (int from = 0; from < program_.request.layout.world(); ++from) {
    if (!is_owner(tensor, from)) continue;
    if (from == 0 && rank() == 0) {
      for (const Piece& piece : pieces_of(tensor)) {
        values.resize(static_cast<std::size_t>(piece.place.num_elems()));
        read(piece.range, values.data());
        place_part(piece.place, values.data(), shape, full);
      }
    } else if (rank() == 0) {
      receive_pieces(tensor, from, *world, full);
    } else if (rank() == from) {
      send_pieces(tensor, *world);
    }
  }
  return full;
}

void ModelState::fill_pieces(const StateTensor& tensor, const Fill& fill) {
  const bool is_weight = tensor.kind == StateKind::kParameter || tensor.kind == StateKind::kMaster;
  std::vector<std::vector<Piece>> targets;
  for (const StateKind kind : is_weight ? weight_kinds() : std::vector{tensor.kind}) {
    StateTensor part = tensor;
    part.kind = kind;
    targets.push_back(pieces_of(part));
  }
  std::vector<float> values;
  for (const Piece& piece : targets.front()) {  // a rank has no master without the parameter
    for (const Rectangle& part : parts_of(piece.place, view(tensor).transposed_in_file)) {
      values.resize(static_cast<std::size_t>(part.num_elems()));
      fill(part, values);
      for (const std::vector<Piece>& target : targets) {
        for (const Piece& to : target) write_part(to, part, values.data());
      }
    }
  }
}

void ModelState::store(const StateTensor& tensor, const std::vector<float>& values) {
  const MatrixShape shape = shape_of(tensor);
  TRI_CHECK(std::ssize(values) == shape.num_elems());
  fill_pieces(tensor, [&](const Rectangle& part, std::span<float> out) {
    auto next = out.begin();
    for (std::int64_t r = part.first_row; r < part.first_row + part.num_rows; ++r) {
      for (std::int64_t c = part.first_column; c < part.first_column + part.num_columns; ++c) {
        const std::int64_t at =
            shape.is_transposed_in_file ? c * shape.num_rows + r : r * shape.num_columns + c;
        *next++ = values[static_cast<std::size_t>(at)];
      }
    }
  });
}

void ModelState::load(const StateTensor& tensor, const ShardedReader& reader) {
  const TensorSource source(reader, tensor.name, spec_of(tensor).shape,
                            view(tensor).transposed_in_file);
  fill_pieces(tensor, [&](const Rectangle& part, std::span<float> out) { source.read(part, out); });
}

bool ModelState::has_finite_parameters() const {
  const int num = num_roots(program_);
  for (int root = 0; root < num; ++root) {
    const Range all = program_.whole(*program_.find_buffer(root_name("params", root)));
    const bool is_bf16 = program_.buffer(all.buffer).dtype == DType::kBf16;
    if (is_bf16 ? !are_finite<Bf16>(executor_.values<Bf16>(program_index_, all))
                : !are_finite<float>(executor_.values<float>(program_index_, all)))
      return false;
  }
  return true;
}

}  // namespace trireme
