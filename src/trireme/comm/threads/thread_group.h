// Where the members of one (group, purpose) meet: shared by their communicators.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/call.h"
#include "trireme/comm/communicator.h"
#include "trireme/comm/group.h"
#include "trireme/comm/threads/gate.h"

namespace trireme {

/// A member's call and its buffers. Written by the member before it arrives at `entry`, read by
/// all between `entry` and `exit`.
struct alignas(64) PostedCall {
  CollectiveCall call = {};
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

/// One side's half of a message.
struct PostedMessage {
  MessageCall call = {};
  const std::byte* source = nullptr;  ///< Of the sender only.
};

/// Messages of one ordered pair of members, one at a time.
struct alignas(64) Channel {
  Gate met{2};    ///< Both sides have posted.
  Gate taken{1};  ///< The receiver has copied. Never closed: after `met` it surely comes.
  // By parity of the round of `met`: the receiver may post message k + 1 while the sender still
  // compares the two sides of message k, but not k + 2.
  PostedMessage slots[2][2];

  [[nodiscard]] PostedMessage& slot(std::uint32_t round, bool is_sender) {
    return slots[Gate::is_odd(round) ? 1 : 0][is_sender ? 1 : 0];
  }
};

/// Where a member in an exchange waits for any of its messages.
struct alignas(64) Mailbox {
  /// Changes after a gate of one of the member's channels has: a message met, taken or closed.
  /// 32 bits, so that atomic::wait sleeps on the word itself.
  std::atomic<std::uint32_t> news{0};
  bool is_stalled = false;                   ///< Guarded by the group's stall mutex, with the rest:
  std::span<const Transfer> transfers = {};  ///< asleep over these
  std::uint32_t seen_news = 0;               ///< since this state of `news`.
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(std::vector<int> world_ranks, std::string_view purpose);

  [[nodiscard]] Channel& channel(int source, int destination);
  [[nodiscard]] Mailbox& mailbox(int member);
  /// Something has changed in a channel of `member`.
  void send_news(int member);

  /// Notes that `member` is about to sleep until its news differ from `seen_news`. Returns what
  /// deadlock() does.
  [[nodiscard]] std::string begin_stall(int member, std::span<const Transfer> transfers,
                                        std::uint32_t seen_news);
  void end_stall(int member);

  /// Every member waits for another one of this group, in an exchange or in a collective: who waits
  /// for what. Else empty. Whoever blocks last sees it, if each asks once it has blocked.
  [[nodiscard]] std::string deadlock();

  /// No round completes any more.
  void close();
  /// No round with `member` completes any more.
  void close_for(int member);
  /// The first member that close_for has named.
  [[nodiscard]] std::optional<int> departed_member() const;

  Gate entry;  ///< All members have posted.
  /// All members are done with each other's buffers. Never closed: past `entry` nobody waits for
  /// anything but copies, so all arrive, and buffers outlive their readers even in an abort.
  Gate exit;
  std::vector<PostedCall> posted;
  std::vector<bool> has_handle;  ///< Guarded by the world's mutex.

 private:
  [[nodiscard]] std::string deadlock_locked() const;

  std::vector<Channel> channels_;
  std::vector<Mailbox> mailboxes_;
  std::mutex stall_mutex_;
  /// seq_cst: a member stalls, then looks at `entry`; one at `entry` arrives, then looks here. So
  /// at least one of two sees the other.
  std::atomic<int> num_stalled_{0};
  std::atomic<int> departed_{-1};  ///< -1: none. Stored before the gates close.
};

}  // namespace trireme
