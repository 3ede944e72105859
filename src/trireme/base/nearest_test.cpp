#include "trireme/base/nearest.h"

#include <array>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // k->s, e->i, +g
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
}

TEST(EditDistance, IsTheSameInBothDirections) {
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
  EXPECT_EQ(edit_distance("lawn", "flaw"), 2);
}

TEST(NearestName, IsTheOneWithTheFewestEdits) {
  constexpr std::array<std::string_view, 3> kKeys = {"micro_batch", "global_batch", "seq"};
  EXPECT_EQ(nearest_name("microbatch", kKeys), "micro_batch");
  EXPECT_EQ(nearest_name("global-batch", kKeys), "global_batch");
}

TEST(NearestName, IsTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> kKeys = {"dp", "tp"};
  EXPECT_EQ(nearest_name("xp", kKeys), "dp");
}

TEST(NearestName, RefusesAnEmptyListOfCandidates) {
  EXPECT_THROW(static_cast<void>(nearest_name("x", {})), InternalError);
}

}  // namespace
}  // namespace trireme
