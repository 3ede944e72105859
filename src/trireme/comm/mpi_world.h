// Ranks as processes under MPI. mpi/ implements it; no_mpi/ refuses where MPI was not found.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/comm/launch.h"
#include "trireme/comm/world.h"

namespace trireme {

/// What a process does when the run is lost. Both are called in a thread of the world.
struct MpiWorldOptions {
  /// Tells people the cause, at once: on one rank, 0 or, if that one is lost itself, 1.
  std::function<void(const FirstCause&)> report;
  /// Ends this process: it still lives five seconds after the loss.
  std::function<void()> end_process;
};

/// The world of which this process is one rank. A thread of its own makes all MPI calls. Beside
/// MPI, which does not notice it, the processes watch each other over TCP: one that dies is noticed
/// at once, one that is stopped or whose machine hangs after set_timeout(). Whatever ends the run,
/// each process learns the first cause; its blocked calls wake with PeerLost, and MPI makes no
/// further call: a lost world is not finalized, its process must end.
///
/// Peers that wait for one another for ever are the verifier's to find (V6 to V9): their processes
/// live, so no time limit ends them.
class MpiWorld final : public World {
 public:
  /// Starts MPI, collectively. UsageError without MPI, or if MPI sees other processes than `launch`
  /// says.
  MpiWorld(Launch launch, MpiWorldOptions options);
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  MpiWorld(MpiWorld&&) = delete;
  MpiWorld& operator=(MpiWorld&&) = delete;
  /// Waits for all ranks, unless the run is lost.
  ~MpiWorld() override;

  [[nodiscard]] static bool is_built();

  /// Seconds of silence after which a process counts as lost; 60 at first.
  void set_timeout(double seconds);

  [[nodiscard]] int rank() const { return launch_.rank; }
  [[nodiscard]] int size() const override { return launch_.size; }
  [[nodiscard]] RankRange local_ranks() const override { return {.first = rank(), .count = 1}; }
  /// Processes of the run on this machine.
  [[nodiscard]] int num_ranks_of_machine() const { return launch_.local_size; }

  [[nodiscard]] std::unique_ptr<Communicator> communicator(int world_rank,
                                                           std::span<const int> world_ranks,
                                                           std::string_view purpose) override;
  /// Returns when rank 0 has heard of it, or after five seconds.
  void abort(int world_rank, std::exception_ptr cause) override;
  /// Has no effect: the destructor says it.
  void leave(int /*world_rank*/) override {}
  void begin_step(int world_rank, std::int64_t step) override;
  [[nodiscard]] std::optional<FirstCause> first_cause() const override;

  /// Memory of each communicator for pieces of reductions, whatever the size of the buffers.
  static constexpr std::int64_t kStagingBytes = std::int64_t{4} << 20;

 private:
  void wait_for_all();

  struct State;
  Launch launch_;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
