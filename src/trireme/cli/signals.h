// SIGINT and SIGTERM as a request to stop. Private to the layer.
#pragma once

#include <atomic>
#include <csignal>

namespace trireme {

/// While it lives, the first SIGINT or SIGTERM is noted and the next one ends the process at once.
/// One at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// Number of the signal that came; 0 = none.
  [[nodiscard]] const std::atomic<int>& number() const;

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
};

}  // namespace trireme
