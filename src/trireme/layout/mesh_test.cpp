#include "trireme/layout/mesh.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

using Group = std::vector<int>;

const Mesh& eight_ranks() {
  static const Mesh mesh({.pp = 2, .dp = 2, .cp = 1, .tp = 2});
  return mesh;
}

TEST(Mesh, TpGroupIsARunOfNeighbours) {
  EXPECT_EQ(eight_ranks().group_of(0, Axis::kTp), (Group{0, 1}));
  EXPECT_EQ(eight_ranks().group_of(3, Axis::kTp), (Group{2, 3}));
  EXPECT_EQ(eight_ranks().group_of(4, Axis::kTp), (Group{4, 5}));
  EXPECT_EQ(eight_ranks().group_of(7, Axis::kTp), (Group{6, 7}));
}

TEST(Mesh, DpGroupSkipsOverTp) {
  EXPECT_EQ(eight_ranks().group_of(0, Axis::kDp), (Group{0, 2}));
  EXPECT_EQ(eight_ranks().group_of(3, Axis::kDp), (Group{1, 3}));
  EXPECT_EQ(eight_ranks().group_of(6, Axis::kDp), (Group{4, 6}));
  EXPECT_EQ(eight_ranks().group_of(5, Axis::kDp), (Group{5, 7}));
}

TEST(Mesh, PpGroupSkipsOverDpAndTp) {
  EXPECT_EQ(eight_ranks().group_of(4, Axis::kPp), (Group{0, 4}));
  EXPECT_EQ(eight_ranks().group_of(1, Axis::kPp), (Group{1, 5}));
  EXPECT_EQ(eight_ranks().group_of(2, Axis::kPp), (Group{2, 6}));
  EXPECT_EQ(eight_ranks().group_of(7, Axis::kPp), (Group{3, 7}));
}

TEST(Mesh, CpLiesBetweenTpAndDp) {
  const Mesh mesh({.pp = 1, .dp = 2, .cp = 2, .tp = 2});
  EXPECT_EQ(mesh.group_of(5, Axis::kCp), (Group{5, 7}));
  EXPECT_EQ(mesh.group_of(5, Axis::kDp), (Group{1, 5}));
}

TEST(Mesh, AGroupOfOneIsTheRankItself) {
  EXPECT_EQ(eight_ranks().group_of(6, Axis::kCp), (Group{6}));
}

TEST(Mesh, RankFollowsTheDocumentedFormula) {
  const Mesh mesh({.pp = 2, .dp = 3, .cp = 4, .tp = 5});
  EXPECT_EQ(mesh.size(), 120);
  EXPECT_EQ(mesh.rank_of({.pp = 1, .dp = 2, .cp = 3, .tp = 4}), ((1 * 3 + 2) * 4 + 3) * 5 + 4);
  EXPECT_EQ(mesh.coord_of(67), (MeshCoord{.pp = 1, .dp = 0, .cp = 1, .tp = 2}));
}

TEST(Mesh, RanksAndCoordinatesAreABijection) {
  const Mesh mesh({.pp = 2, .dp = 3, .cp = 4, .tp = 5});
  for (int rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.rank_of(mesh.coord_of(rank)), rank);
  }
}

TEST(Mesh, GroupsOfAnAxisPartitionTheRanks) {
  const Mesh mesh({.pp = 2, .dp = 3, .cp = 4, .tp = 5});
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    SCOPED_TRACE(axis_name(axis));
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Group group = mesh.group_of(rank, axis);
      ASSERT_EQ(static_cast<int>(group.size()), mesh.extent(axis));
      EXPECT_EQ(group.at(static_cast<std::size_t>(mesh.coord_of(rank).at(axis))), rank);
      for (const int peer : group) EXPECT_EQ(mesh.group_of(peer, axis), group);
    }
  }
}

TEST(Mesh, RefusesAnExtentBelowOneByName) {
  try {
    static_cast<void>(Mesh({.pp = 1, .dp = 0, .cp = 1, .tp = 1}));
    FAIL() << "did not throw";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "[layout] dp = 0: must be at least 1; use dp = 1");
  }
}

TEST(Mesh, RefusesAWorldThatDoesNotFitAnInt) {
  EXPECT_THROW(static_cast<void>(Mesh({.pp = 65536, .dp = 65536, .cp = 1, .tp = 1})), UsageError);
  EXPECT_THROW(static_cast<void>(Mesh({.pp = 65536, .dp = 65536, .cp = 65536, .tp = 65536})),
               UsageError);
}

TEST(Mesh, ChecksRanksAndCoordinates) {
  EXPECT_THROW(static_cast<void>(eight_ranks().coord_of(8)), InternalError);
  EXPECT_THROW(static_cast<void>(eight_ranks().coord_of(-1)), InternalError);
  EXPECT_THROW(static_cast<void>(eight_ranks().rank_of({.tp = 2})), InternalError);
}

}  // namespace
}  // namespace trireme
