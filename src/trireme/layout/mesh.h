// Ranks and their coordinates on the mesh axes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme {

/// Outer to inner: tp varies fastest, so that a tp group is a run of neighbours inside one node.
enum class Axis : std::uint8_t { kPp, kDp, kCp, kTp };
inline constexpr int kNumAxes = 4;

[[nodiscard]] std::string_view axis_name(Axis axis);

/// Position of one rank, or the extents of a mesh, by axis.
struct MeshCoord {
  int pp = 0;
  int dp = 0;
  int cp = 0;
  int tp = 0;
  bool operator==(const MeshCoord&) const = default;
  [[nodiscard]] int at(Axis axis) const;
};

/// Bijection between ranks [0, size) and coordinates: rank = ((pp*DP + dp)*CP + cp)*TP + tp
/// (Megatron-LM's order tp-cp-dp-pp, outer to inner reversed).
class Mesh {
 public:
  /// Throws UsageError unless every extent is >= 1 and the world fits an int.
  explicit Mesh(MeshCoord extents);

  [[nodiscard]] int size() const;
  [[nodiscard]] int extent(Axis axis) const { return extents_.at(axis); }
  /// InternalError for a coordinate or a rank that lies outside the mesh.
  [[nodiscard]] int rank_of(MeshCoord coord) const;
  [[nodiscard]] MeshCoord coord_of(int rank) const;
  /// The ranks that differ from `rank` only along `axis`, ascending; includes `rank`.
  [[nodiscard]] std::vector<int> group_of(int rank, Axis axis) const;
  bool operator==(const Mesh&) const = default;

 private:
  MeshCoord extents_;
};

}  // namespace trireme
