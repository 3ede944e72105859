// What one rank of this process holds: its team, its communicators, its backends and its arena.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trireme/comm/world.h"
#include "trireme/execute/program_traffic.h"
#include "trireme/execute/rank_executor.h"
#include "trireme/execute/rank_programs.h"

namespace trireme {

struct RankOptions {
  int num_threads = 1;           ///< OpenMP threads of the rank
  bool resets_affinity = false;  ///< see run_on_any_core
  int spin_count = 0;            ///< see ExecutorOptions
  /// Makes the backend of a program, which outlives it, in the rank's thread; empty: a CPU backend.
  std::function<std::unique_ptr<Backend>(const Program&)> make_backend = {};
};

/// Made, used and destroyed in the rank's own thread.
class RankResources {
 public:
  /// `programs` and `world` outlive it. Throws as RankExecutor does.
  RankResources(const RankPrograms& programs, World& world, int rank, const RankOptions& options);

  [[nodiscard]] RankExecutor& executor() { return *executor_; }
  /// All ranks, for the host's own messages; nullptr if the rank is alone.
  [[nodiscard]] Communicator* host() const { return host_.get(); }
  /// Bytes that the programs have sent, by group.
  [[nodiscard]] GroupBytes bytes_sent() const;

 private:
  /// Of the programs, by group: each is used by one stream.
  std::map<std::string, std::unique_ptr<Communicator>> groups_;
  std::unique_ptr<Communicator> host_;
  std::optional<RankExecutor> executor_;
};

}  // namespace trireme
