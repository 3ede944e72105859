#include "trireme/cli/signals.h"

namespace trireme {
namespace {

// A signal handler has no other way to say anything than through a global.
std::atomic<int> stop_number{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) {
  stop_number.store(number);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  stop_number.store(0);
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &old_interrupt_);
  ::sigaction(SIGTERM, &action, &old_terminate_);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &old_interrupt_, nullptr);
  ::sigaction(SIGTERM, &old_terminate_, nullptr);
}

const std::atomic<int>& StopSignals::number() const {
  return stop_number;
}

}  // namespace trireme
