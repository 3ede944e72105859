// Many more random programs, and worlds of 64 ranks.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/random_programs.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

constexpr std::size_t kNumPrograms = kIsSanitized ? 2'000 : 20'000;
constexpr unsigned kNumLargeWorlds = kIsSanitized ? 2 : 12;

std::string what(unsigned seed, const BuildRequest& request) {
  return "seed " + std::to_string(seed) + ": " + layout_text(request.layout, request.batch);
}

TEST(ManyRandomPrograms, OfAllRanksVerify) {
  std::size_t num_programs = 0;
  for (unsigned seed = 10'000; num_programs < kNumPrograms; ++seed) {
    Draw draw(seed);
    const Layout degrees = random_degrees(draw, 24);
    const BuildRequest request = random_request(draw, degrees);
    const std::vector<Program> programs = all_ranks(request);
    ASSERT_EQ(fault(verify(programs)), "") << what(seed, request);
    num_programs += programs.size();
  }
}

TEST(ManyRandomPrograms, OfWorldsOf64RanksVerify) {
  for (unsigned seed = 0; seed < kNumLargeWorlds; ++seed) {
    Draw draw(seed);
    Layout degrees{.pp = draw.one_of<int>({4, 8}), .tp = draw.one_of<int>({1, 2, 4})};
    degrees.dp = 64 / (degrees.pp * degrees.tp);
    const BuildRequest request = random_request(draw, degrees);
    const std::vector<Program> programs = all_ranks(request);
    ASSERT_EQ(programs.size(), 64U);
    ASSERT_EQ(fault(verify(programs)), "") << what(seed, request);
  }
}

}  // namespace
}  // namespace trireme
