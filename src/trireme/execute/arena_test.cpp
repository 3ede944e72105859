#include "trireme/execute/arena.h"

#include <algorithm>
#include <cstdint>
#include <sys/mman.h>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

TEST(Arena, IsZeroAndHasTheSizeAskedFor) {
  const Arena arena(5'000'001);
  EXPECT_EQ(arena.bytes().size(), 5'000'001U);
  EXPECT_TRUE(std::all_of(arena.bytes().begin(), arena.bytes().end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Arena, StartsOnAHugePage) {
  const Arena arena(64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.bytes().data()) % (2 * 1024 * 1024), 0U);
}

TEST(Arena, EveryPageIsResidentFromTheStart) {
  const Arena arena(20 * 1024 * 1024);
  std::vector<unsigned char> resident(arena.bytes().size() / 4096);
  ASSERT_EQ(::mincore(arena.bytes().data(), arena.bytes().size(), resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(),
                          [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(Arena, RefusesMoreThanTheAddressSpace) {
  EXPECT_THROW(Arena(std::int64_t{1} << 60), ResourceError);
}

}  // namespace
}  // namespace trireme
