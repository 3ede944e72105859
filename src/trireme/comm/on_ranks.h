// Tests only: runs one function on every rank of a fresh world, with a communicator of all ranks.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/world.h"

namespace trireme {

/// Of the kind of ranks that the test program was linked with: threads/test_world.cpp or
/// mpi/test_world.cpp. Processes that are no rank of it have none to run. All processes make the
/// same worlds in the same order.
[[nodiscard]] std::unique_ptr<World> make_test_world(int size);
/// Of the largest test world.
[[nodiscard]] int max_test_ranks();

/// Skips a test where there are too few processes for it.
#define TRI_NEED_RANKS(size)                                                  \
  if ((size) > max_test_ranks()) {                                            \
    GTEST_SKIP() << "needs " << (size) << " ranks, has " << max_test_ranks(); \
  }                                                                           \
  static_assert(true)

inline std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline void on_ranks(World& world, const std::function<void(Communicator&)>& body) {
  run_ranks(world, [&](int rank) {
    const auto communicator = world.communicator(rank, all_ranks(world), "test");
    body(*communicator);
  });
}

inline void on_ranks(int size, const std::function<void(Communicator&)>& body) {
  const auto world = make_test_world(size);
  on_ranks(*world, body);
}

}  // namespace trireme
