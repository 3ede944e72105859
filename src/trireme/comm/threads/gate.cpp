#include "trireme/comm/threads/gate.h"

#include <thread>

#include "trireme/base/errors.h"

namespace trireme {

namespace {

constexpr std::uint32_t kArrivedMask = Gate::kMaxMembers;
constexpr std::uint32_t kOneRound = kArrivedMask + 1;
constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;
constexpr std::uint32_t kRoundMask = ~(kClosed | kArrivedMask);

}  // namespace

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void pause_cpu(int num_pauses) {
  constexpr int kPausesPerYield = 64;
  pause_cpu();
  if (num_pauses % kPausesPerYield == kPausesPerYield - 1) std::this_thread::yield();
}

Gate::Gate(int num_members) : num_members_(static_cast<std::uint32_t>(num_members)) {
  TRI_CHECK(num_members >= 1 && num_members <= kMaxMembers);
}

std::uint32_t Gate::round() const {
  return word_.load(std::memory_order_relaxed) & kRoundMask;
}

std::uint32_t Gate::arrive() {
  std::uint32_t word = word_.load(std::memory_order_relaxed);
  while ((word & kClosed) == 0) {
    const bool is_last = (word & kArrivedMask) + 1 == num_members_;
    const std::uint32_t next = is_last ? ((word & kRoundMask) + kOneRound) & kRoundMask : word + 1;
    // seq_cst: ThreadGroup relies on the order of arrivals and stalls.
    if (word_.compare_exchange_weak(word, next)) {
      if (is_last) word_.notify_all();
      break;
    }
  }
  return word & kRoundMask;
}

GateState Gate::state_of(std::uint32_t round) const {
  const std::uint32_t word = word_.load(std::memory_order_acquire);
  if ((word & kRoundMask) != round) return GateState::kPassed;
  return (word & kClosed) != 0 ? GateState::kClosed : GateState::kWaiting;
}

GateState Gate::spin(std::uint32_t round, int spin_count) const {
  GateState state = state_of(round);
  for (int i = 0; i < spin_count && state == GateState::kWaiting; ++i) {
    pause_cpu(i);
    state = state_of(round);
  }
  return state;
}

bool Gate::wait(std::uint32_t round, int spin_count) const {
  const GateState state = spin(round, spin_count);
  if (state != GateState::kWaiting) return state == GateState::kPassed;
  for (;;) {
    const std::uint32_t word = word_.load(std::memory_order_acquire);
    if ((word & kRoundMask) != round) return true;
    if ((word & kClosed) != 0) return false;
    word_.wait(word, std::memory_order_acquire);
  }
}

int Gate::num_arrived() const {
  return static_cast<int>(word_.load() & kArrivedMask);
}

bool Gate::is_odd(std::uint32_t round) {
  return (round & kOneRound) != 0;
}

void Gate::close() {
  word_.fetch_or(kClosed, std::memory_order_acq_rel);
  word_.notify_all();
}

}  // namespace trireme
