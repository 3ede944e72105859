// Messages of ThreadCommunicator; the collectives are in thread_communicator.cpp.
#include <algorithm>
#include <string>

#include "trireme/base/errors.h"
#include "trireme/comm/threads/thread_communicator.h"

namespace trireme {

void ThreadCommunicator::exchange(std::span<const Transfer> transfers) {
  checks_.check_transfers(transfers);
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  for (const Transfer& transfer : transfers) {
    post(transfer);
    sent_bytes += std::ssize(transfer.outgoing);
    received_bytes += std::ssize(transfer.incoming);
  }
  std::string failure;
  // Whichever message can move does: a peer of a later transfer may have to go on before the peer
  // of an earlier one can come. All end, in an abort too, before this call returns or throws.
  for (int num_spins = 0;; ++num_spins) {
    const std::uint32_t seen_news = group_.mailbox(rank()).news.load(std::memory_order_acquire);
    bool is_finished = true;
    for (const Transfer& transfer : transfers) {
      const MessageState state = advance(transfer, failure);
      is_finished = is_finished && state != MessageState::kPosted && state != MessageState::kMet;
    }
    if (is_finished) break;
    if (num_spins < spin_count_) {
      pause_cpu(num_spins);
    } else {
      wait_for_news(transfers, seen_news, failure);
    }
  }
  if (!failure.empty()) throw UsageError(failure);
  for (const Transfer& transfer : transfers) {
    if (pending_of(transfer).state == MessageState::kLost) {
      throw_lost(transfer.is_send ? CommOp::kSend : CommOp::kRecv);
    }
  }
  count_bytes_sent(sent_bytes);
  sleep_for_link(Clock::now(), transfers.empty() ? 0 : message_steps(CommOp::kSend, size()),
                 std::max(sent_bytes, received_bytes));
}

Channel& ThreadCommunicator::channel_of(const Transfer& transfer) const {
  return transfer.is_send ? group_.channel(rank(), transfer.peer)
                          : group_.channel(transfer.peer, rank());
}

ThreadCommunicator::Pending& ThreadCommunicator::pending_of(const Transfer& transfer) {
  return pending_[2 * static_cast<std::size_t>(transfer.peer) + (transfer.is_send ? 1U : 0U)];
}

void ThreadCommunicator::post(const Transfer& transfer) {
  Channel& channel = channel_of(transfer);
  PostedMessage& posted = channel.slot(channel.met.round(), transfer.is_send);
  const std::span<const std::byte> bytes =
      transfer.is_send ? transfer.outgoing : std::span<const std::byte>(transfer.incoming);
  posted = {.call = {.tag = transfer.tag, .num_bytes = std::ssize(bytes)},
            .source = transfer.is_send ? bytes.data() : nullptr};
  pending_of(transfer) = {.round = channel.met.arrive()};
  group_.send_news(transfer.peer);
}

ThreadCommunicator::MessageState ThreadCommunicator::advance(const Transfer& transfer,
                                                             std::string& failure) {
  Pending& pending = pending_of(transfer);
  Channel& channel = channel_of(transfer);
  if (pending.state == MessageState::kPosted) {
    const GateState met = channel.met.state_of(pending.round);
    if (met == GateState::kClosed) pending.state = MessageState::kLost;
    if (met == GateState::kPassed) pending.state = match(transfer, failure);
  }
  if (pending.state != MessageState::kMet) return pending.state;
  if (!transfer.is_send) {
    std::copy_n(channel.slot(pending.round, true).source, transfer.incoming.size(),
                transfer.incoming.data());
    channel.taken.arrive();
    group_.send_news(transfer.peer);
    pending.state = MessageState::kDone;
  } else if (channel.taken.state_of(pending.round) == GateState::kPassed) {
    pending.state = MessageState::kDone;
  }
  return pending.state;
}

ThreadCommunicator::MessageState ThreadCommunicator::match(const Transfer& transfer,
                                                           std::string& failure) {
  Channel& channel = channel_of(transfer);
  const std::uint32_t round = pending_of(transfer).round;
  const PostedMessage& sent = channel.slot(round, true);
  const PostedMessage& wanted = channel.slot(round, false);
  if (sent.call == wanted.call) return MessageState::kMet;
  failure = checks_.disagreement(transfer, sent.call, wanted.call);
  // At once: the other transfers of this exchange may wait for ranks that will never come.
  abort_world(failure);
  return MessageState::kLost;
}

void ThreadCommunicator::wait_for_news(std::span<const Transfer> transfers, std::uint32_t seen_news,
                                       std::string& failure) {
  const std::string deadlock = group_.begin_stall(rank(), transfers, seen_news);
  if (!deadlock.empty() && failure.empty()) {
    failure = deadlock;
    abort_world(failure);
  }
  group_.mailbox(rank()).news.wait(seen_news, std::memory_order_acquire);
  group_.end_stall(rank());
}

}  // namespace trireme
