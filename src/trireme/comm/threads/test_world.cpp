// Test worlds of threads.
#include "trireme/comm/on_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {

std::unique_ptr<World> make_test_world(int size) {
  return std::make_unique<ThreadWorld>(size);
}

int max_test_ranks() {
  return kMaxThreadRanks;
}

}  // namespace trireme
