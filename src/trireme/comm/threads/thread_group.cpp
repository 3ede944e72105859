#include "trireme/comm/threads/thread_group.h"

#include <utility>

#include <fmt/format.h>

namespace trireme {

ThreadGroup::ThreadGroup(std::vector<int> members, std::string_view purpose_name)
    : Group(std::move(members), purpose_name),
      entry(size()),
      exit(size()),
      posted(world_ranks().size()),
      has_handle(world_ranks().size(), false),
      channels_(world_ranks().size() * world_ranks().size()),
      mailboxes_(world_ranks().size()) {}

Channel& ThreadGroup::channel(int source, int destination) {
  return channels_[static_cast<std::size_t>(source) * world_ranks().size() +
                   static_cast<std::size_t>(destination)];
}

std::optional<int> ThreadGroup::departed_member() const {
  const int member = departed_.load(std::memory_order_acquire);
  return member >= 0 ? std::optional<int>(member) : std::nullopt;
}

Mailbox& ThreadGroup::mailbox(int member) {
  return mailboxes_[static_cast<std::size_t>(member)];
}

void ThreadGroup::send_news(int member) {
  mailbox(member).news.fetch_add(1);
  mailbox(member).news.notify_all();
}

std::string ThreadGroup::begin_stall(int member, std::span<const Transfer> transfers,
                                     std::uint32_t seen_news) {
  const std::lock_guard lock(stall_mutex_);
  Mailbox& own = mailbox(member);
  own.is_stalled = true;
  own.transfers = transfers;
  own.seen_news = seen_news;
  num_stalled_.fetch_add(1);
  return deadlock_locked();
}

void ThreadGroup::end_stall(int member) {
  const std::lock_guard lock(stall_mutex_);
  mailbox(member).is_stalled = false;
  num_stalled_.fetch_sub(1);
}

std::string ThreadGroup::deadlock() {
  if (num_stalled_.load() == 0) return {};  // All others are on their way here, or compute.
  const std::lock_guard lock(stall_mutex_);
  return deadlock_locked();
}

// A member with news is about to wake. One that has arrived at `entry` can do nothing else; counted
// first, because it may have sent news before: read later, they would not be counted as news. Those
// who are stalled stay so while we hold the mutex.
std::string ThreadGroup::deadlock_locked() const {
  int num_waiting = entry.num_arrived();
  bool is_any_stalled = false;
  for (const Mailbox& box : mailboxes_) {
    if (!box.is_stalled || box.news.load() != box.seen_news) continue;
    is_any_stalled = true;
    ++num_waiting;
  }
  if (!is_any_stalled || num_waiting < size()) return {};
  std::string text = fmt::format("[comm] in {}, every member waits for another:", description());
  for (int member = 0; member < size(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    text += fmt::format("{} {} in", member == 0 ? "" : ",", member_name(member));
    if (!mailboxes_[index].is_stalled) {
      text += fmt::format(" {}", comm_op_name(posted[index].call.op));
      continue;
    }
    for (const Transfer& transfer : mailboxes_[index].transfers) {
      text += fmt::format(" {} {} (tag {})", transfer.is_send ? "send to" : "recv from",
                          transfer.peer, transfer.tag);
    }
  }
  return text +
         "; order the calls so that one can complete, or exchange both ways in one call "
         "(rule V8)";
}

void ThreadGroup::close() {
  entry.close();
  for (Channel& channel : channels_) channel.met.close();
  for (int member = 0; member < size(); ++member) send_news(member);
}

void ThreadGroup::close_for(int member) {
  int none = -1;
  departed_.compare_exchange_strong(none, member, std::memory_order_acq_rel);
  entry.close();
  for (int peer = 0; peer < size(); ++peer) {
    channel(member, peer).met.close();
    channel(peer, member).met.close();
    send_news(peer);
  }
}

}  // namespace trireme
