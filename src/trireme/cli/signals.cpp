#include "trireme/cli/signals.h"

#include <ctime>

namespace trireme {
namespace {

// A signal handler has no other way to say anything than through globals.
std::atomic<int> stop_number{0};          // NOLINT
std::atomic<std::time_t> stop_second{0};  // NOLINT
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::time_t>::is_always_lock_free);

/// Programs such as timeout(1) signal a process twice at once, so a repetition within a second does
/// not count.
void note_signal(int number) {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  int expected = 0;
  if (stop_number.compare_exchange_strong(expected, number)) {
    stop_second.store(now.tv_sec);
  } else if (now.tv_sec > stop_second.load() + 1) {
    std::signal(number, SIG_DFL);
    ::raise(number);
  }
}

}  // namespace

StopSignals::StopSignals() {
  stop_number.store(0);
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &old_[i]);
    // nohup asks to live on without a terminal; a shell that starts jobs in the background ignores
    // SIGINT for them, but who sends it to this process means it.
    if (kSignals[i] == SIGHUP && old_[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
    ::sigaction(kSignals[i], &action, nullptr);  // as nohup wants it
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &old_pipe_);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
}

const std::atomic<int>& StopSignals::number() const {
  return stop_number;
}

}  // namespace trireme
