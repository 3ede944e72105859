#include "trireme/base/token_pieces.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::vector<std::int64_t> positions(const TokenPieces& pieces, std::int64_t seq) {
  std::vector<std::int64_t> all;
  for (std::int64_t t = 0; t < pieces.num_tokens(seq); ++t) all.push_back(pieces.position(t));
  return all;
}

TEST(TokenPieces, OfOneRankAreTheSequence) {
  EXPECT_EQ(positions(zigzag_pieces(5, 1, 0), 5), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(TokenPieces, ComeFromBothEnds) {
  EXPECT_EQ(positions(zigzag_pieces(12, 3, 1), 12), (std::vector<std::int64_t>{2, 3, 8, 9}));
}

TEST(TokenPieces, OfAllRanksAreEachTokenOnceAndEqualCausalWork) {
  constexpr std::int64_t kSeq = 24;
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < 4; ++rank) {
    std::int64_t visible_keys = 0;
    for (const std::int64_t position : positions(zigzag_pieces(kSeq, 4, rank), kSeq)) {
      EXPECT_TRUE(seen.insert(position).second);
      visible_keys += position + 1;
    }
    EXPECT_EQ(visible_keys, kSeq * (kSeq + 1) / 2 / 4);
  }
  EXPECT_EQ(std::ssize(seen), kSeq);
}

}  // namespace
}  // namespace trireme
