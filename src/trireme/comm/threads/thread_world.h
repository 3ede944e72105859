// Ranks as threads of one process: the world they live in and where they meet.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/comm/world.h"

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

/// All ranks of one process.
///
/// A group whose members all wait for one another (two sends that face each other; a message here,
/// a collective there) is aborted with UsageError. Waits across groups are the verifier's (V8, V9).
///
/// Peers read and write each other's buffers directly. A member that an abort wakes has not been
/// and will not be read by anyone; a member whose operation has begun (all have met) finishes it,
/// abort or not. So a rank may free its buffers as soon as its own call has returned or thrown.
class ThreadWorld final : public World {
 public:
  /// UsageError unless size >= 1 and the options are not negative.
  explicit ThreadWorld(int size, ThreadWorldOptions options = {});
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;
  ~ThreadWorld() override;

  [[nodiscard]] int size() const override;
  [[nodiscard]] RankRange local_ranks() const override { return {.first = 0, .count = size()}; }

  /// As in World; also UsageError for the same members in another order.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int world_rank,
                                                           std::span<const int> world_ranks,
                                                           std::string_view purpose) override;

  void abort(int world_rank, std::exception_ptr cause) override;
  void abort(int world_rank, const std::string& message);

  /// A peer that waits for `world_rank` is woken with UsageError.
  void leave(int world_rank) override;

  void begin_step(int world_rank, std::int64_t step) override;

  [[nodiscard]] std::optional<FirstCause> first_cause() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
