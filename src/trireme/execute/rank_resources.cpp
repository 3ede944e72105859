#include "trireme/execute/rank_resources.h"

#include <numeric>
#include <utility>
#include <vector>

#include "trireme/execute/cpu/cpu_backend.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/program/groups.h"

namespace trireme {

RankResources::RankResources(const RankPrograms& programs, World& world, int rank,
                             const RankOptions& options) {
  if (options.resets_affinity) run_on_any_core();
  const bool has_all_ranks = world.local_ranks().count == world.size();
  if (has_all_ranks) keep_to_own_cores(rank, world.size(), options.num_threads);
  set_rank_threads(options.num_threads);  // last: the team inherits the rank's cores
  if (world.size() > 1) {
    std::vector<int> ranks(static_cast<std::size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    host_ = world.communicator(rank, ranks, "host");
  }
  std::vector<GroupCommunicator> communicators;
  const BuildRequest& request = programs.programs.front().request;
  for (const std::string& group : groups_of(programs.programs)) {
    auto& communicator = groups_[group];
    communicator = world.communicator(rank, group_ranks(request, group), group);
    communicators.push_back({.group = group, .communicator = communicator.get()});
  }
  std::vector<std::unique_ptr<Backend>> backends;
  for (const Program& program : programs.programs) {
    backends.push_back(options.make_backend ? options.make_backend(program)
                                            : make_cpu_backend(program, options.num_threads));
  }
  executor_.emplace(programs.pointers(), programs.placement, std::move(backends), communicators,
                    ExecutorOptions{.spin_count = options.spin_count,
                                    .abort = [&world, rank](std::exception_ptr cause) {
                                      world.abort(rank, std::move(cause));
                                    }});
}

GroupBytes RankResources::bytes_sent() const {
  GroupBytes bytes;
  for (const auto& [group, communicator] : groups_) bytes[group] = communicator->bytes_sent();
  return bytes;
}

}  // namespace trireme
