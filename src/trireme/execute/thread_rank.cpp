#include "trireme/execute/thread_rank.h"

#include <numeric>
#include <utility>
#include <vector>

#include "trireme/execute/cpu/cpu_backend.h"
#include "trireme/execute/cpu/threads.h"

namespace trireme {

ThreadRank::ThreadRank(const RankPrograms& programs, ThreadWorld& world, int rank,
                       const ThreadRankOptions& options) {
  set_rank_threads(options.num_threads, options.resets_affinity);
  if (world.size() > 1) {
    std::vector<int> ranks(static_cast<std::size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    dp_ = world.communicator(rank, ranks, "dp");
    host_ = world.communicator(rank, ranks, "host");
  }
  std::vector<std::unique_ptr<Backend>> backends;
  for (const Program& program : programs.programs) {
    backends.push_back(std::make_unique<CpuBackend>(program, options.num_threads));
  }
  std::vector<GroupCommunicator> communicators;
  if (dp_) communicators.push_back({.group = "dp", .communicator = dp_.get()});
  executor_.emplace(programs.pointers(), programs.placement, std::move(backends), communicators,
                    ExecutorOptions{.spin_count = options.spin_count,
                                    .abort = [&world, rank](std::exception_ptr cause) {
                                      world.abort(rank, std::move(cause));
                                    }});
}

}  // namespace trireme
