#include "trireme/comm/run_ranks.h"

#include <exception>
#include <thread>
#include <vector>

namespace trireme {

void run_ranks(World& world, const std::function<void(int rank)>& body) {
  const auto run_one = [&](int rank) {
    try {
      body(rank);
      world.leave(rank);
    } catch (...) {
      world.abort(rank, std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  const RankRange ranks = world.local_ranks();
  threads.reserve(static_cast<std::size_t>(ranks.count));
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    try {
      threads.emplace_back(run_one, rank);
    } catch (...) {  // The system has no thread left: the ranks that run would wait for ever.
      world.abort(rank, std::current_exception());
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (const std::optional<FirstCause> cause = world.first_cause()) {
    std::rethrow_exception(cause->exception);
  }
}

}  // namespace trireme
