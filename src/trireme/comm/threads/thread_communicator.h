// The communicator of a rank that is a thread; made by ThreadWorld.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/comm/threads/thread_group.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {

/// Nothing is staged and nothing is allocated per call: members read each other's buffers, and
/// write a peer's only in the cut that is theirs by rank.
class ThreadCommunicator final : public Communicator {
 public:
  /// Refers to `world` and `group`, which outlive it.
  ThreadCommunicator(ThreadWorld& world, ThreadGroup& group, int member,
                     const ThreadWorldOptions& options);

  void exchange(std::span<const Transfer> transfers) override;
  void barrier() override;
  void broadcast(std::span<std::byte> buffer, int root) override;
  void scatter(std::span<const std::byte> full, std::span<std::byte> shard, int root) override;
  void gather(std::span<const std::byte> shard, std::span<std::byte> full, int root) override;
  void reduce(std::span<std::byte> buffer, Reduction reduction, int root) override;
  void all_reduce(std::span<std::byte> buffer, Reduction reduction) override;
  void reduce_scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                      Reduction reduction) override;
  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full) override;
  void all_to_all(std::span<const std::byte> outgoing, std::span<std::byte> incoming) override;

 private:
  using Clock = std::chrono::steady_clock;

  /// Posts this member's call, meets the others, runs `move`, waits until all have moved.
  template <typename Move>
  void run(const CollectiveCall& call, const std::byte* source, std::byte* target, Move move);
  void finish(const CollectiveCall& call, Clock::time_point met_at);
  void sleep_for_link(Clock::time_point met_at, int num_steps, std::int64_t busiest_bytes) const;

  /// This rank's cut of a buffer: nobody else writes it in anyone's buffer.
  [[nodiscard]] ByteCut own_cut(std::size_t num_bytes, Reduction reduction) const;
  /// Reduces the cut of all members' posted sources into `targets`, which start at the cut.
  void reduce_cut(Reduction reduction, const ByteCut& cut, std::span<std::byte* const> targets);

  enum class MessageState : std::uint8_t { kPosted, kMet, kDone, kLost };
  struct Pending {
    std::uint32_t round = 0;  ///< Of its channel; `met` and `taken` count alike.
    MessageState state = MessageState::kPosted;
  };
  void post(const Transfer& transfer);
  /// Takes the transfer as far as it goes without waiting. A receiver copies; the sender's buffer
  /// stays alive until then, abort or not.
  [[nodiscard]] MessageState advance(const Transfer& transfer, std::string& failure);
  /// Compares the two sides that have met.
  [[nodiscard]] MessageState match(const Transfer& transfer, std::string& failure);
  void wait_for_news(std::span<const Transfer> transfers, std::uint32_t seen_news,
                     std::string& failure);
  [[nodiscard]] Channel& channel_of(const Transfer& transfer) const;
  [[nodiscard]] Pending& pending_of(const Transfer& transfer);

  [[nodiscard]] std::string disagreement() const;
  void meet(CommOp op, std::uint32_t entry_round);
  void abort_world(const std::string& message);
  [[noreturn]] void throw_lost(CommOp op);

  ThreadWorld& world_;
  ThreadGroup& group_;
  CallChecks checks_;
  int spin_count_;
  LinkModel link_;
  std::vector<const std::byte*> sources_;  ///< Of one reduction; one a member.
  std::vector<std::byte*> targets_;        ///< Of one reduction; at most one a member.
  std::vector<Pending> pending_;           ///< Of one exchange; two a member: receive, send.
};

}  // namespace trireme
