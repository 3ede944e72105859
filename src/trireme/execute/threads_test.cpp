#include "trireme/execute/cpu/threads.h"

#include <cstddef>
#include <iterator>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

TEST(RankThreads, ATeamThatOpenMpCutsShortIsRefused) {
  const int levels = ::omp_get_max_active_levels();
  ::omp_set_max_active_levels(0);  // as OMP_MAX_ACTIVE_LEVELS=0 does
  EXPECT_NO_THROW(set_rank_threads(1));
  std::string message;
  try {
    set_rank_threads(2);
  } catch (const ResourceError& error) {
    message = error.what();
  }
  ::omp_set_max_active_levels(levels);
  EXPECT_NE(message.find("a team of 1 threads where 2 are configured"), std::string::npos)
      << message;
}

/// Cores of the calling thread.
std::vector<std::size_t> own_cores() {
  cpu_set_t set;
  EXPECT_EQ(::pthread_getaffinity_np(::pthread_self(), sizeof(set), &set), 0);
  std::vector<std::size_t> cores;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cores.push_back(cpu);
  }
  return cores;
}

/// Those of a thread of `rank`, and of a thread that it starts.
std::vector<std::size_t> cores_of(int rank, int num_ranks, int num_threads) {
  std::vector<std::size_t> cores, of_child;
  std::thread([&] {
    keep_to_own_cores(rank, num_ranks, num_threads);
    cores = own_cores();
    std::thread([&] { of_child = own_cores(); }).join();
  }).join();
  EXPECT_EQ(cores, of_child);
  return cores;
}

TEST(RankThreads, RanksThatFillTheMachineHaveCoresOfTheirOwn) {
  const std::vector<std::size_t> all = own_cores();
  const int count = narrow<int>(std::ssize(all));
  std::vector<std::size_t> together;
  for (int rank = 0; rank < count; ++rank) {
    const std::vector<std::size_t> own = cores_of(rank, count, 1);
    EXPECT_EQ(own.size(), 1U);
    together.insert(together.end(), own.begin(), own.end());
  }
  EXPECT_EQ(together, all);
  EXPECT_EQ(cores_of(0, 1, count), all);
}

TEST(RankThreads, RanksThatLeaveOrShareCoresRunOnAny) {
  const std::vector<std::size_t> all = own_cores();
  const int count = narrow<int>(std::ssize(all));
  EXPECT_EQ(cores_of(0, 2 * count, 1), all);
  EXPECT_EQ(cores_of(0, count + 1, 1), all);
  if (count > 2) {
    EXPECT_EQ(cores_of(1, 2, 1), all);
  }
}

}  // namespace
}  // namespace trireme
