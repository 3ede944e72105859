// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a request to stop. Private to the layer.
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace trireme {

/// While it lives, the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 (which mpirun and
/// Slurm hand to all processes) is noted, one that comes more than a second
/// later ends the process at once, and a reader of the output that went away is no reason to die
/// (SIGPIPE). One at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// Number of the signal that came; 0 = none.
  [[nodiscard]] const std::atomic<int>& number() const;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, 4> old_{};
  struct sigaction old_pipe_ {};
};

}  // namespace trireme
