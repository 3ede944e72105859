// The ranks of a run, whether they are threads of one process or processes of their own.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/comm/communicator.h"

namespace trireme {

/// The failure that ended a world.
struct FirstCause {
  int rank = 0;
  std::int64_t step = 0;  ///< that the rank had begun; 0: none
  std::string message = {};
  std::exception_ptr exception = nullptr;
};

/// "rank 2, step 5: MESSAGE"; before the first step "rank 2: MESSAGE".
[[nodiscard]] std::string text_of(const FirstCause& cause);

/// A run of neighbouring ranks.
struct RankRange {
  int first = 0;
  int count = 0;
  bool operator==(const RankRange&) const = default;
};

/// Any thread may call any function. Outlives its communicators.
class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  World(World&&) = delete;
  World& operator=(World&&) = delete;
  virtual ~World() = default;

  [[nodiscard]] virtual int size() const = 0;

  /// Those that run in this process.
  [[nodiscard]] virtual RankRange local_ranks() const = 0;

  /// The end of local rank `world_rank` of the group for `purpose`; its rank is its index in
  /// `world_ranks`. Does not wait for the others. UsageError unless the ranks are distinct, in the
  /// world and contain `world_rank`, and for a second handle of the same rank. PeerLost after an
  /// abort.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(int world_rank,
                                                                   std::span<const int> world_ranks,
                                                                   std::string_view purpose) = 0;

  /// Local rank `world_rank` has failed: wakes every blocked call with PeerLost, and refuses every
  /// later one. The first abort is kept as the cause, later ones are ignored.
  virtual void abort(int world_rank, std::exception_ptr cause) = 0;

  /// Local rank `world_rank` makes no more calls.
  virtual void leave(int world_rank) = 0;

  /// Local rank `world_rank` begins a step: what a failure is said to have happened in.
  virtual void begin_step(int world_rank, std::int64_t step) = 0;

  [[nodiscard]] virtual std::optional<FirstCause> first_cause() const = 0;
};

/// What the exception says.
[[nodiscard]] std::string message_of(const std::exception_ptr& exception);

/// UsageError unless the ranks are distinct, in the world and contain `world_rank`.
void check_members(std::span<const int> world_ranks, int world_rank, int world_size);

}  // namespace trireme
