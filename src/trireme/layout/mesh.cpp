#include "trireme/layout/mesh.h"

#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, kNumAxes> kAxisNames = {"pp", "dp", "cp", "tp"};

}  // namespace

std::string_view axis_name(Axis axis) {
  return kAxisNames.at(static_cast<std::size_t>(axis));
}

int MeshCoord::at(Axis axis) const {
  return std::array<int, kNumAxes>{pp, dp, cp, tp}.at(static_cast<std::size_t>(axis));
}

Mesh::Mesh(MeshCoord extents) : extents_(extents) {
  std::int64_t world = 1;
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    if (extent(axis) < 1) {
      throw UsageError(fmt::format("[layout] {} = {}: must be at least 1; use {} = 1",
                                   axis_name(axis), extent(axis), axis_name(axis)));
    }
    world *= extent(axis);  // stays below 2^62: both factors fit an int
    if (world > std::numeric_limits<int>::max()) {
      throw UsageError(fmt::format(
          "[layout] pp * dp * cp * tp = {} * {} * {} * {}: more than {} ranks; use smaller degrees",
          extents.pp, extents.dp, extents.cp, extents.tp, std::numeric_limits<int>::max()));
    }
  }
}

int Mesh::size() const {
  return extents_.pp * extents_.dp * extents_.cp * extents_.tp;
}

int Mesh::rank_of(MeshCoord coord) const {
  int rank = 0;
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    TRI_CHECK(0 <= coord.at(axis) && coord.at(axis) < extent(axis));
    rank = rank * extent(axis) + coord.at(axis);
  }
  return rank;
}

MeshCoord Mesh::coord_of(int rank) const {
  TRI_CHECK(0 <= rank && rank < size());
  const int tp = rank % extents_.tp;
  const int above_tp = rank / extents_.tp;
  const int above_cp = above_tp / extents_.cp;
  return {.pp = above_cp / extents_.dp,
          .dp = above_cp % extents_.dp,
          .cp = above_tp % extents_.cp,
          .tp = tp};
}

std::vector<int> Mesh::group_of(int rank, Axis axis) const {
  int stride = 1;  // ranks between neighbours along `axis`
  for (const Axis inner : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    if (inner > axis) stride *= extent(inner);
  }
  const int first = rank - coord_of(rank).at(axis) * stride;
  std::vector<int> group;
  for (int i = 0; i < extent(axis); ++i) group.push_back(first + i * stride);
  return group;
}

}  // namespace trireme
