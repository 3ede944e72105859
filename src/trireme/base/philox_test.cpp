#include "trireme/base/philox.h"

#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, MatchesTheKnownAnswerForZero) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Philox, MatchesTheKnownAnswerForAllOnes) {
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, MatchesTheKnownAnswerForPi) {
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NormalsHaveUnitVariance) {
  constexpr int kNumSamples = 100000;
  double sum = 0, sum_of_squares = 0;
  for (std::uint64_t i = 0; i < kNumSamples; ++i) {
    const double value = static_cast<double>(philox_normal(philox_key(1, "w"), i));
    sum += value;
    sum_of_squares += value * value;
  }
  const double bound = 5.0 / std::sqrt(kNumSamples);  // five standard errors
  EXPECT_NEAR(sum / kNumSamples, 0.0, bound);
  EXPECT_NEAR(sum_of_squares / kNumSamples, 1.0, bound * std::sqrt(2.0));
}

TEST(Philox, KeysDifferByNameAndBySeed) {
  EXPECT_NE(philox_key(1, "a"), philox_key(1, "b"));
  EXPECT_NE(philox_key(1, "a"), philox_key(2, "a"));
}

}  // namespace
}  // namespace trireme
