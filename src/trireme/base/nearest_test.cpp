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

TEST(NearestMultiples, LieBelowAndAbove) {
  EXPECT_EQ(nearest_multiples(10, 4), "8 or 12");
  EXPECT_EQ(nearest_multiples(8, 4), "8");
}

TEST(NearestMultiples, ArePositive) {
  EXPECT_EQ(nearest_multiples(3, 4), "4");
  EXPECT_EQ(nearest_multiples(-9, 4), "4");
}

TEST(NearestMultiples, StayWithinTheLimit) {
  EXPECT_EQ(nearest_multiples(11, 4, 11), "8");
  EXPECT_EQ(nearest_multiples(9, 4, 11), "8");
  EXPECT_EQ(nearest_multiples(9, 4, 12), "8 or 12");
  EXPECT_EQ(nearest_multiples(3, 13, 12), "none up to 12");
}

TEST(NearestDivisors, LieBelowAndAbove) {
  EXPECT_EQ(nearest_divisors(12, 5), "4 or 6");
  EXPECT_EQ(nearest_divisors(6, 4), "3 or 6");
  EXPECT_EQ(nearest_divisors(7, 3), "1 or 7");
}

TEST(NearestDivisors, StayBetweenOneAndTheNumber) {
  EXPECT_EQ(nearest_divisors(12, 0), "1");
  EXPECT_EQ(nearest_divisors(12, 50), "12");
}

}  // namespace
}  // namespace trireme
