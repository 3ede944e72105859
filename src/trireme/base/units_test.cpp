#include "trireme/base/units.h"

#include <gtest/gtest.h>

#include "trireme/base/dtype.h"

namespace trireme {
namespace {

TEST(Units, NarrowRefusesAValueThatDoesNotFit) {
  EXPECT_EQ(narrow<int>(std::int64_t{7}), 7);
  EXPECT_THROW(static_cast<void>(narrow<int>(std::int64_t{1} << 40)), InternalError);
  EXPECT_THROW(static_cast<void>(narrow<unsigned>(-1)), InternalError);
}

TEST(Units, DivExactRefusesARemainder) {
  EXPECT_EQ(div_exact(12, 4), 3);
  EXPECT_THROW(static_cast<void>(div_exact(13, 4)), InternalError);
}

TEST(Units, RoundUpReachesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
}

TEST(Units, BytesReadInPowersOf1024) {
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{126} * 1000 * 1000 * 1000), "117.347 GiB");
}

TEST(Units, CountsAreGroupedByThree) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-1234), "-1,234");
  EXPECT_EQ(format_count(8030261248), "8,030,261,248");
}

TEST(DTypes, NamesParseBack) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF64, DType::kI32, DType::kU8}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("fp8"), std::nullopt);
}

}  // namespace
}  // namespace trireme
