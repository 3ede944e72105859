#include "trireme/execute/cpu/threads.h"

#include <omp.h>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

TEST(RankThreads, ATeamThatOpenMpCutsShortIsRefused) {
  const int levels = ::omp_get_max_active_levels();
  ::omp_set_max_active_levels(0);  // as OMP_MAX_ACTIVE_LEVELS=0 does
  EXPECT_NO_THROW(set_rank_threads(1, false));
  std::string message;
  try {
    set_rank_threads(2, false);
  } catch (const ResourceError& error) {
    message = error.what();
  }
  ::omp_set_max_active_levels(levels);
  EXPECT_NE(message.find("a team of 1 threads where 2 are configured"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace trireme
