// Many more random programs, and worlds of 64 ranks.
#include <cstddef>

#include <gtest/gtest.h>

#include "trireme/base/sanitized.h"
#include "trireme/program/random_programs.h"
#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

constexpr std::size_t kNumPrograms = kIsSanitized ? 2'000 : 20'000;
constexpr unsigned kNumLargeWorlds = kIsSanitized ? 4 : 100;

TEST(ManyRandomPrograms, VerifyArePlacedAndTakeAsLongAsTheirSchedule) {
  std::size_t num_programs = 0;
  for (unsigned seed = 10'000; num_programs < kNumPrograms; ++seed) {
    Draw draw(seed);
    const Layout degrees = random_degrees(draw, 24);
    const BuildRequest request = random_request(draw, degrees);
    ASSERT_EQ(fault_of_world(request), "") << what(seed, request);
    num_programs += static_cast<std::size_t>(request.layout.world());
  }
}

TEST(ManyRandomPrograms, OfWorldsOf64RanksDoToo) {
  for (unsigned seed = 0; seed < kNumLargeWorlds; ++seed) {
    Draw draw(seed);
    Layout degrees{.pp = draw.one_of<int>({4, 8}), .tp = draw.one_of<int>({1, 2, 4})};
    degrees.dp = 64 / (degrees.pp * degrees.tp);
    const BuildRequest request = random_request(draw, degrees);
    ASSERT_EQ(request.layout.world(), 64);
    ASSERT_EQ(fault_of_world(request), "") << what(seed, request);
  }
}

}  // namespace
}  // namespace trireme
