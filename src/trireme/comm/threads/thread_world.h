// Ranks as threads of one process: the world they live in and where they meet.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/comm/communicator.h"

namespace trireme {

/// Makes an operation last at least message_steps * latency + bytes / bytes_per_second from the
/// moment its members have met (bytes: of the member that sends most), by sleeping. For showing
/// overlap on one machine.
struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 0;  ///< Per rank; 0: unlimited.
};

/// Ranks of the largest world.
inline constexpr int kMaxThreadRanks = 4095;

struct ThreadWorldOptions {
  /// Pauses before a waiting thread sleeps: 2,000 if the process has no more threads than cores,
  /// else 0 (measured: 8 ranks on 2 cores, a barrier takes 3.5 us with 0 and 91 us with 2,000).
  int spin_count = 0;
  LinkModel link = {};
};

/// The failure that ended a world.
struct FirstCause {
  int rank = 0;
  std::string message;
  std::exception_ptr exception;
};

/// All ranks of one process. Any thread may call any function. Outlives its communicators.
///
/// A group whose members all wait for one another (two sends that face each other; a message here,
/// a collective there) is aborted with UsageError. Waits across groups are the verifier's (V8, V9).
///
/// Peers read and write each other's buffers directly. A member that an abort wakes has not been
/// and will not be read by anyone; a member whose operation has begun (all have met) finishes it,
/// abort or not. So a rank may free its buffers as soon as its own call has returned or thrown.
class ThreadWorld {
 public:
  /// UsageError unless size >= 1 and the options are not negative.
  explicit ThreadWorld(int size, ThreadWorldOptions options = {});
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;
  ThreadWorld(ThreadWorld&&) = delete;
  ThreadWorld& operator=(ThreadWorld&&) = delete;
  ~ThreadWorld();

  [[nodiscard]] int size() const;

  /// `world_rank`'s end of the group for `purpose`; its rank is its index in `world_ranks`. Does
  /// not wait for the others. UsageError unless the ranks are distinct, in the world and contain
  /// `world_rank`; for a second handle of the same rank; for the same members in another order.
  /// PeerLost after an abort.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int world_rank,
                                                           std::span<const int> world_ranks,
                                                           std::string_view purpose);

  /// Wakes every blocked call with PeerLost, and refuses every later one. The first abort is kept
  /// as the cause, later ones are ignored.
  void abort(int world_rank, std::exception_ptr cause);
  void abort(int world_rank, const std::string& message);

  /// `world_rank` makes no more calls: a peer that waits for one is woken with UsageError.
  void leave(int world_rank);

  [[nodiscard]] std::optional<FirstCause> first_cause() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
