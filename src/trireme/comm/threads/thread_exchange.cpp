// Messages of ThreadCommunicator; the collectives are in thread_communicator.cpp.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/comm/threads/thread_communicator.h"

namespace trireme {

void ThreadCommunicator::exchange(std::span<const Transfer> transfers) {
  check_transfers(transfers);
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
      pause_cpu();
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
  posted = transfer.is_send
               ? PostedMessage{.tag = transfer.tag,
                               .num_bytes = transfer.outgoing.size(),
                               .source = transfer.outgoing.data()}
               : PostedMessage{.tag = transfer.tag, .num_bytes = transfer.incoming.size()};
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
  if (sent.tag == wanted.tag && sent.num_bytes == wanted.num_bytes) return MessageState::kMet;
  failure = disagreement(transfer, sent, wanted);
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

void ThreadCommunicator::check_transfers(std::span<const Transfer> transfers) const {
  for (std::size_t index = 0; index < transfers.size(); ++index) {
    const Transfer& transfer = transfers[index];
    const CommOp op = transfer.is_send ? CommOp::kSend : CommOp::kRecv;
    if (transfer.peer < 0 || transfer.peer >= size() || transfer.peer == rank()) {
      throw UsageError(fmt::format("{}: peer {} is not another rank of the group, 0 to {}",
                                   where(op), transfer.peer, size() - 1));
    }
    if (!(transfer.is_send ? transfer.incoming.empty() : transfer.outgoing.empty())) {
      throw UsageError(
          fmt::format("{}: the transfer with peer {}, tag {} has both an outgoing and "
                      "an incoming buffer; make two transfers",
                      where(op), transfer.peer, transfer.tag));
    }
    for (const Transfer& other : transfers.first(index)) {
      if (other.peer == transfer.peer && other.is_send == transfer.is_send) {
        throw UsageError(
            fmt::format("{}: two transfers of one exchange with peer {}, tags {} and "
                        "{}; one per direction and peer, make two exchanges",
                        where(op), transfer.peer, other.tag, transfer.tag));
      }
    }
  }
}

std::string ThreadCommunicator::disagreement(const Transfer& transfer, const PostedMessage& sent,
                                             const PostedMessage& wanted) const {
  const int sender = transfer.is_send ? rank() : transfer.peer;
  const int receiver = transfer.is_send ? transfer.peer : rank();
  return fmt::format(
      "[comm] in {}, {} sends {} bytes with tag {} but {} receives {} bytes with tag {}; the k-th "
      "send of a pair meets its k-th receive with equal tag and bytes (rule V7)",
      group_.description(), group_.member_name(sender), sent.num_bytes, sent.tag,
      group_.member_name(receiver), wanted.num_bytes, wanted.tag);
}

}  // namespace trireme
