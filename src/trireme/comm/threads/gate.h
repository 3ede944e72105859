// A meeting point that is passed by all of its members or by none.
#pragma once

#include <atomic>
#include <cstdint>

namespace trireme {

enum class GateState : std::uint8_t { kWaiting, kPassed, kClosed };

/// Tells the core that this is a busy wait.
void pause_cpu();
/// The next of a row of pauses, `num_pauses` after its first. Now and then it yields the core: who
/// is waited for may want it (two ranks on one core, a barrier of 64 KiB: 130 us without, 20 with).
void pause_cpu(int num_pauses);

/// A barrier that can be closed. Closing and the last arrival are ordered by one atomic word: a
/// round is either complete, and then every member sees it complete even if the gate is closed
/// afterwards, or it never will be. That is what makes it safe to touch the peers' memory past it.
class Gate {
 public:
  /// At most kMaxMembers.
  explicit Gate(int num_members);

  /// The round that this member's next arrival counts for. Stable until it arrives.
  [[nodiscard]] std::uint32_t round() const;

  /// Counts this member in; the last one releases all. Publishes what was written before.
  /// Without effect once the gate is closed. Returns the round.
  std::uint32_t arrive();

  [[nodiscard]] GateState state_of(std::uint32_t round) const;

  /// Up to `spin_count` looks at the state, while it is kWaiting.
  [[nodiscard]] GateState spin(std::uint32_t round, int spin_count) const;

  /// Waits for `round` to complete (true), or for the gate to close before that (false): first
  /// `spin_count` pauses, then asleep. Any thread may wait, a member or not. Acquires what the
  /// members wrote before they arrived.
  [[nodiscard]] bool wait(std::uint32_t round, int spin_count) const;

  void close();

  /// Members that have arrived in the round that is not complete.
  [[nodiscard]] int num_arrived() const;

  /// Rounds alternate between even and odd.
  [[nodiscard]] static bool is_odd(std::uint32_t round);

  static constexpr int kMaxMembers = (1 << 12) - 1;

 private:
  // Bit 31: closed; bits 12 to 30: round; bits 0 to 11: members that have arrived in it. 32 bits,
  // so that atomic::wait sleeps on the word itself.
  std::atomic<std::uint32_t> word_{0};
  std::uint32_t num_members_;
};

}  // namespace trireme
