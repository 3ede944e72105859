#include "trireme/comm/rank_order_reduce.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"

namespace trireme {
namespace {

constexpr Reduction kSumF32{.dtype = DType::kF32};
constexpr Reduction kMaxF32{.dtype = DType::kF32, .op = ReduceOp::kMax};

const std::byte* bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values)).data();
}
std::byte* bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values)).data();
}

float reduced(const std::vector<std::vector<float>>& inputs, Reduction reduction) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) sources.push_back(bytes_of(input));
  std::vector<float> result(1);
  const std::array<std::byte*, 1> targets{bytes_of(result)};
  reduce_in_rank_order(sources, targets, 1, reduction);
  return result[0];
}

TEST(RankOrderReduce, AddsFromRankZeroUpwards) {
  // (2^24 + 1) + 1 stays 2^24 in f32, 2^24 + (1 + 1) would not.
  const float big = 16777216.0F;
  EXPECT_EQ(reduced({{big}, {1.0F}, {1.0F}}, kSumF32), big);
  EXPECT_EQ(reduced({{1.0F}, {1.0F}, {big}}, kSumF32), big + 2.0F);
}

TEST(RankOrderReduce, MayWriteIntoALateSourceOfManyBlocks) {
  const std::size_t num_elems = 3001;
  std::vector<std::vector<float>> buffers(4, std::vector<float>(num_elems));
  std::vector<float> expected(num_elems);
  for (std::size_t i = 0; i < num_elems; ++i) {
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      buffers[rank][i] = static_cast<float>(i + 1) / static_cast<float>(3 * rank + 1);
    }
    expected[i] = ((buffers[0][i] + buffers[1][i]) + buffers[2][i]) + buffers[3][i];
  }
  const std::array<const std::byte*, 4> sources{bytes_of(buffers[0]), bytes_of(buffers[1]),
                                                bytes_of(buffers[2]), bytes_of(buffers[3])};
  const std::array<std::byte*, 2> targets{bytes_of(buffers[3]), bytes_of(buffers[1])};
  reduce_in_rank_order(sources, targets, std::int64_t{num_elems}, kSumF32);
  EXPECT_EQ(buffers[3], expected);
  EXPECT_EQ(buffers[1], expected);
}

TEST(RankOrderReduce, MaxTakesTheGreatest) {
  EXPECT_EQ(reduced({{-3.0F}, {-1.0F}, {-2.0F}}, kMaxF32), -1.0F);
}

TEST(RankOrderReduce, MaxKeepsANanOfAnyRank) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(reduced({{nan}, {1.0F}, {2.0F}}, kMaxF32)));
  EXPECT_TRUE(std::isnan(reduced({{1.0F}, {nan}, {2.0F}}, kMaxF32)));
  EXPECT_TRUE(std::isnan(reduced({{1.0F}, {2.0F}, {nan}}, kMaxF32)));
}

TEST(RankOrderReduce, SumsOfBf16AreRoundedOnce) {
  // In bf16, 256 + 1 is 256 again; in fp32 the ones add up first.
  const std::vector<Bf16> big = {to_bf16(256.0F)}, one = {to_bf16(1.0F)};
  std::vector<const std::byte*> sources = {std::as_bytes(std::span(big)).data()};
  for (int i = 0; i < 3; ++i) sources.push_back(std::as_bytes(std::span(one)).data());
  std::vector<Bf16> sum(1);
  std::byte* const target = std::as_writable_bytes(std::span(sum)).data();
  reduce_in_rank_order(sources, {&target, 1}, 1, {.dtype = DType::kBf16});
  EXPECT_EQ(to_float(sum[0]), 260.0F);  // 259 lies between 258 and 260: ties to even
}

TEST(RankOrderReduce, RefusesOtherTypes) {
  EXPECT_THROW((void)reduced({{1.0F}}, {.dtype = DType::kI32}), InternalError);
}

}  // namespace
}  // namespace trireme
