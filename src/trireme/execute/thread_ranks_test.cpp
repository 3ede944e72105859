#include "trireme/execute/thread_ranks.h"

#include <array>
#include <atomic>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

/// The element of a rank.
template <typename T>
T& of(std::array<T, 2>& array, int rank) {
  return array.at(static_cast<std::size_t>(rank));
}

class ThreadRanksTest : public testing::Test {
 protected:
  static std::vector<RankPrograms> programs_of(int num_ranks) {
    BuildRequest request = small_request({.pp = num_ranks}, {.seq = 4});
    std::vector<std::vector<Program>> programs;
    for (request.rank = 0; request.rank < num_ranks; ++request.rank) {
      programs.push_back({build_prefill(request)});
    }
    return make_ready(std::move(programs), 1);
  }

  /// What run() throws, or "" if nothing.
  std::string error_of(const ThreadRanks::Work& work) {
    try {
      ranks_.run(work);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<RankPrograms> programs_ = programs_of(2);
  ThreadRanks ranks_{programs_, {}};
};

TEST_F(ThreadRanksTest, EachRankKeepsItsThread) {
  std::array<std::thread::id, 2> first, second;
  ranks_.run([&](int rank, RankResources&) { of(first, rank) = std::this_thread::get_id(); });
  ranks_.run([&](int rank, RankResources&) { of(second, rank) = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  const std::set threads = {first[0], first[1], std::this_thread::get_id()};
  EXPECT_EQ(threads.size(), 3U);
}

TEST_F(ThreadRanksTest, MeetInTheirCommunicator) {
  std::array<int, 2> seen{};
  ranks_.run([&](int rank, RankResources& resources) {
    of(seen, rank) = rank == 0 ? 7 : 0;
    resources.host()->broadcast(std::as_writable_bytes(std::span(&of(seen, rank), 1)), 0);
  });
  EXPECT_EQ(seen, (std::array{7, 7}));
}

TEST_F(ThreadRanksTest, FailureWakesThePeerThatWaitsAndIsRethrown) {
  std::atomic<bool> has_lost_peer = false;
  std::latch has_begun(1);  // a rank that has not begun leaves without its work
  EXPECT_EQ(error_of([&](int rank, RankResources& resources) {
              if (rank == 1) {
                has_begun.wait();
                throw UsageError("rank 1 fails");
              }
              has_begun.count_down();
              try {
                resources.host()->barrier();
              } catch (const PeerLost&) {
                has_lost_peer = true;
                throw;
              }
            }),
            "rank 1 fails");
  EXPECT_TRUE(has_lost_peer);
}

TEST_F(ThreadRanksTest, FailureWakesThePeerThatIsDone) {
  EXPECT_EQ(error_of([&](int rank, RankResources&) {
              if (rank == 0) throw UsageError("rank 0 fails");
            }),
            "rank 0 fails");
}

TEST_F(ThreadRanksTest, LaterWorkIsRefusedWithTheFirstFailure) {
  static_cast<void>(error_of([](int, RankResources&) { throw UsageError("first"); }));
  EXPECT_EQ(error_of([](int, RankResources&) { throw UsageError("second"); }), "first");
}

TEST_F(ThreadRanksTest, ArenaThatCannotBeHadIsRefused) {
  std::vector<RankPrograms> programs = programs_of(2);
  programs.back().placement.arena_bytes = std::int64_t{1} << 60;
  EXPECT_THROW(ThreadRanks(programs, {}), ResourceError);
}

}  // namespace
}  // namespace trireme
