// Tests only: runs one function on every rank of a fresh world, with a communicator of all ranks.
#pragma once

#include <functional>
#include <numeric>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {

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
  ThreadWorld world(size);
  on_ranks(world, body);
}

}  // namespace trireme
