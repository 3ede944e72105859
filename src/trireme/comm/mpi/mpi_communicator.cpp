#include "trireme/comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/base/units.h"
#include "trireme/comm/rank_order_reduce.h"

namespace trireme {
namespace {

constexpr std::int64_t kSlotAlignment = 64;

void copy_bytes(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) std::memcpy(to, from.data(), from.size());
}

/// Elements as they travel.
Reduction wire_reduction(Reduction reduction) {
  if (!reduction.travels_in_bf16) return reduction;
  return {.dtype = DType::kBf16, .op = reduction.op};
}

std::int64_t wire_bytes(Reduction reduction) {
  return dtype_bytes(wire_reduction(reduction).dtype);
}

/// Elements that have travelled, into a buffer of the reduction's type.
void unpack(const std::byte* wire, std::byte* to, std::int64_t num_elems, Reduction reduction) {
  if (!reduction.travels_in_bf16) {
    copy_bytes({wire, static_cast<std::size_t>(num_elems * wire_bytes(reduction))}, to);
    return;
  }
  const auto* const from = reinterpret_cast<const Bf16*>(wire);
  std::transform(from, from + num_elems, reinterpret_cast<float*>(to),
                 [](Bf16 value) { return to_float(value); });
}

}  // namespace

std::uint32_t group_number(const Group& group) {
  constexpr std::uint64_t kNoSeed = 0;
  constexpr std::uint32_t kNumbers = std::uint32_t{1} << 22;  // times kinds: below any tag limit
  return static_cast<std::uint32_t>(philox_key(kNoSeed, group.description())) % kNumbers;
}

MpiCommunicator::MpiCommunicator(const Host& host, Group group, int member,
                                 std::int64_t staging_bytes)
    : Communicator(member, group.size()),
      host_(host),
      group_(std::move(group)),
      checks_(group_, member),
      number_(group_number(group_)),
      mailbox_(host.thread.add_mailbox()),
      batch_(static_cast<std::size_t>(2 * group_.size())),
      headers_(static_cast<std::size_t>(group_.size())),
      pending_(static_cast<std::size_t>(2 * group_.size())),
      staging_(static_cast<std::size_t>(staging_bytes + kSlotAlignment)),
      slot_bytes_(staging_bytes / (2 * group_.size() + 1) / kSlotAlignment * kSlotAlignment),
      sources_(static_cast<std::size_t>(group_.size())) {
  TRI_CHECK(slot_bytes_ > 0);
}

int MpiCommunicator::tag_of(Kind kind) const {
  constexpr int kNumKinds = 4;
  return static_cast<int>(number_) * kNumKinds + static_cast<int>(kind);
}

MpiCommunicator::Header MpiCommunicator::header_of(const CollectiveCall& call) const {
  return {.group = number_,
          .num_bytes = call.full_bytes,
          .op = static_cast<std::int32_t>(call.op),
          .root_or_tag = call.root,
          .dtype = static_cast<std::int32_t>(call.reduction.dtype),
          .reduce_op = static_cast<std::int32_t>(call.reduction.op),
          .travels_in_bf16 = call.reduction.travels_in_bf16 ? 1 : 0};
}

MpiCommunicator::Header MpiCommunicator::header_of(const Transfer& transfer) const {
  const std::int64_t num_bytes =
      transfer.is_send ? std::ssize(transfer.outgoing) : std::ssize(transfer.incoming);
  return {.group = number_,
          .num_bytes = num_bytes,
          .op = static_cast<std::int32_t>(CommOp::kSend),
          .root_or_tag = transfer.tag};
}

CollectiveCall MpiCommunicator::call_of(const Header& header) {
  return {.op = static_cast<CommOp>(header.op),
          .full_bytes = header.num_bytes,
          .reduction = {.dtype = static_cast<DType>(header.dtype),
                        .op = static_cast<ReduceOp>(header.reduce_op),
                        .travels_in_bf16 = header.travels_in_bf16 != 0},
          .root = header.root_or_tag};
}

MessageCall MpiCommunicator::message_of(const Header& header) {
  return {.tag = header.root_or_tag, .num_bytes = header.num_bytes};
}

// ---- Collectives ----

void MpiCommunicator::meet(const CollectiveCall& call) {
  const auto own = static_cast<std::size_t>(rank());
  headers_[own] = header_of(call);
  batch_.clear();
  const int tag = tag_of(Kind::kCallOrSend);
  for (int member = 0; member < size(); ++member) {
    if (member == rank()) continue;
    batch_.add_recv(
        world_rank(member), tag,
        std::as_writable_bytes(std::span(&headers_[static_cast<std::size_t>(member)], 1)));
    batch_.add_send(world_rank(member), tag, std::as_bytes(std::span(&headers_[own], 1)));
  }
  move_parts(call.op);
  for (int member = 1; member < size(); ++member) {
    const Header& other = headers_[static_cast<std::size_t>(member)];
    if (other == headers_[0]) continue;
    fail(checks_.disagreement(0, call_of(headers_[0]), member, call_of(other)));
  }
  batch_.clear();
}

void MpiCommunicator::finish(const CollectiveCall& call) {
  count_bytes_sent(trireme::bytes_sent(traffic_of(call, size(), rank())));
}

void MpiCommunicator::send_part(int member, std::span<const std::byte> bytes) {
  batch_.add_send(world_rank(member), tag_of(Kind::kContent), bytes);
}

void MpiCommunicator::receive_part(int member, std::span<std::byte> bytes) {
  batch_.add_recv(world_rank(member), tag_of(Kind::kContent), bytes);
}

void MpiCommunicator::move_parts(CommOp op) {
  if (batch_.is_empty()) return;
  host_.thread.post(batch_, mailbox_);
  host_.thread.wait(batch_, mailbox_);
  if (batch_.state() == MpiBatch::State::kLost) throw_lost(op);
  batch_.clear();
}

void MpiCommunicator::barrier() {
  const CollectiveCall call{.op = CommOp::kBarrier};
  meet(call);
  finish(call);
}

void MpiCommunicator::broadcast(std::span<std::byte> buffer, int root) {
  const CollectiveCall call = checks_.broadcast(buffer, root);
  meet(call);
  for (int member = 0; member < size(); ++member) {
    if (rank() == root && member != root) send_part(member, buffer);
  }
  if (rank() != root) receive_part(root, buffer);
  move_parts(call.op);
  finish(call);
}

void MpiCommunicator::scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                              int root) {
  const CollectiveCall call = checks_.scatter(full, shard, root);
  meet(call);
  if (rank() == root) {
    for (int member = 0; member < size(); ++member) {
      const auto part = full.subspan(static_cast<std::size_t>(member) * shard.size(), shard.size());
      member == root ? copy_bytes(part, shard.data()) : send_part(member, part);
    }
  } else {
    receive_part(root, shard);
  }
  move_parts(call.op);
  finish(call);
}

void MpiCommunicator::gather(std::span<const std::byte> shard, std::span<std::byte> full,
                             int root) {
  const CollectiveCall call = checks_.gather(shard, full, root);
  meet(call);
  if (rank() == root) {
    for (int member = 0; member < size(); ++member) {
      const auto part = full.subspan(static_cast<std::size_t>(member) * shard.size(), shard.size());
      member == root ? copy_bytes(shard, part.data()) : receive_part(member, part);
    }
  } else {
    send_part(root, shard);
  }
  move_parts(call.op);
  finish(call);
}

void MpiCommunicator::all_gather(std::span<const std::byte> shard, std::span<std::byte> full) {
  const CollectiveCall call = checks_.all_gather(shard, full);
  meet(call);
  for (int member = 0; member < size(); ++member) {
    const auto part = full.subspan(static_cast<std::size_t>(member) * shard.size(), shard.size());
    if (member == rank()) {
      copy_bytes(shard, part.data());
      continue;
    }
    receive_part(member, part);
    send_part(member, shard);
  }
  move_parts(call.op);
  finish(call);
}

void MpiCommunicator::all_to_all(std::span<const std::byte> outgoing,
                                 std::span<std::byte> incoming) {
  const CollectiveCall call = checks_.all_to_all(outgoing, incoming);
  meet(call);
  const std::size_t part_bytes = outgoing.size() / static_cast<std::size_t>(size());
  for (int member = 0; member < size(); ++member) {
    const std::size_t begin = static_cast<std::size_t>(member) * part_bytes;
    const auto theirs = outgoing.subspan(begin, part_bytes);
    const auto ours = incoming.subspan(begin, part_bytes);
    if (member == rank()) {
      copy_bytes(theirs, ours.data());
      continue;
    }
    receive_part(member, ours);
    send_part(member, theirs);
  }
  move_parts(call.op);
  finish(call);
}

// ---- Reductions ----

std::byte* MpiCommunicator::received_slot(int member) {
  const auto address = reinterpret_cast<std::uintptr_t>(staging_.data());
  const std::uintptr_t past = address % kSlotAlignment;
  std::byte* const first = staging_.data() + (past == 0 ? 0 : kSlotAlignment - past);
  return first + member * slot_bytes_;
}

std::byte* MpiCommunicator::packed_slot(int member) {
  return received_slot(size() + member);
}

std::byte* MpiCommunicator::result_slot() {
  return received_slot(2 * size());
}

std::int64_t MpiCommunicator::num_pieces(std::size_t num_bytes, Reduction reduction) const {
  const std::int64_t piece_elems = slot_bytes_ / wire_bytes(reduction);
  return div_ceil(cut_of(num_bytes, reduction, size(), 0).elems.count, piece_elems);
}

MpiCommunicator::PieceRange MpiCommunicator::range_of(const Piece& piece, std::size_t num_bytes,
                                                      int member) const {
  const ByteCut cut = cut_of(num_bytes, piece.reduction, size(), member);
  const std::int64_t piece_elems = slot_bytes_ / wire_bytes(piece.reduction);
  const std::int64_t begin = std::min(piece.index * piece_elems, cut.elems.count);
  return {.begin_bytes = cut.begin_bytes + begin * dtype_bytes(piece.reduction.dtype),
          .num_elems = std::min(piece_elems, cut.elems.count - begin)};
}

std::span<const std::byte> MpiCommunicator::packed(const Piece& piece, const PieceRange& range,
                                                   std::byte* slot) const {
  const std::byte* const from = piece.source + range.begin_bytes;
  const auto num_bytes = static_cast<std::size_t>(range.num_elems * wire_bytes(piece.reduction));
  if (range.num_elems == 0 || !piece.reduction.travels_in_bf16) return {from, num_bytes};
  round_to_bf16({reinterpret_cast<const float*>(from), static_cast<std::size_t>(range.num_elems)},
                slot);
  return {slot, num_bytes};
}

void MpiCommunicator::reduce_piece(const Piece& piece, std::size_t num_bytes, std::byte* result) {
  const PieceRange own = range_of(piece, num_bytes, rank());
  const auto own_bytes = static_cast<std::size_t>(own.num_elems * wire_bytes(piece.reduction));
  for (int member = 0; member < size(); ++member) {
    const auto at = static_cast<std::size_t>(member);
    if (member == rank()) {
      sources_[at] = packed(piece, own, packed_slot(member)).data();
      continue;
    }
    sources_[at] = received_slot(member);
    receive_part(member, {received_slot(member), own_bytes});
    send_part(member, packed(piece, range_of(piece, num_bytes, member), packed_slot(member)));
  }
  move_parts(piece.op);
  if (own.num_elems == 0) return;
  reduce_in_rank_order(sources_, std::span(&result, 1), own.num_elems,
                       wire_reduction(piece.reduction));
}

void MpiCommunicator::reduce(std::span<std::byte> buffer, Reduction reduction, int root) {
  const CollectiveCall call = checks_.reduce(buffer, reduction, root);
  meet(call);
  for (Piece piece{.op = call.op, .reduction = reduction, .source = buffer.data()};
       piece.index < num_pieces(buffer.size(), reduction); ++piece.index) {
    reduce_piece(piece, buffer.size(), result_slot());
    const auto slot_of = [&](int member, std::byte* slot) -> std::span<std::byte> {
      const PieceRange range = range_of(piece, buffer.size(), member);
      return {slot, static_cast<std::size_t>(range.num_elems * wire_bytes(reduction))};
    };
    if (rank() != root) {
      send_part(root, slot_of(rank(), result_slot()));
      move_parts(call.op);
      continue;
    }
    for (int member = 0; member < size(); ++member) {
      if (member != root) receive_part(member, slot_of(member, received_slot(member)));
    }
    move_parts(call.op);
    for (int member = 0; member < size(); ++member) {
      const PieceRange range = range_of(piece, buffer.size(), member);
      unpack(member == root ? result_slot() : received_slot(member),
             buffer.data() + range.begin_bytes, range.num_elems, reduction);
    }
  }
  finish(call);
}

void MpiCommunicator::all_reduce(std::span<std::byte> buffer, Reduction reduction) {
  const CollectiveCall call = checks_.all_reduce(buffer, reduction);
  meet(call);
  for (Piece piece{.op = call.op, .reduction = reduction, .source = buffer.data()};
       piece.index < num_pieces(buffer.size(), reduction); ++piece.index) {
    // Unless they travel rounded, sums go from buffer to buffer.
    const auto place_of = [&](int member, std::byte* slot) -> std::span<std::byte> {
      const PieceRange range = range_of(piece, buffer.size(), member);
      std::byte* const at = reduction.travels_in_bf16 ? slot : buffer.data() + range.begin_bytes;
      return {at, static_cast<std::size_t>(range.num_elems * wire_bytes(reduction))};
    };
    const std::span<std::byte> own = place_of(rank(), result_slot());
    reduce_piece(piece, buffer.size(), own.data());
    for (int member = 0; member < size(); ++member) {
      if (member == rank()) continue;
      send_part(member, own);
      receive_part(member, place_of(member, received_slot(member)));
    }
    move_parts(call.op);
    if (!reduction.travels_in_bf16) continue;
    for (int member = 0; member < size(); ++member) {
      const PieceRange range = range_of(piece, buffer.size(), member);
      unpack(member == rank() ? result_slot() : received_slot(member),
             buffer.data() + range.begin_bytes, range.num_elems, reduction);
    }
  }
  finish(call);
}

void MpiCommunicator::reduce_scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                                     Reduction reduction) {
  const CollectiveCall call = checks_.reduce_scatter(full, shard, reduction);
  meet(call);
  const std::int64_t shard_begin = rank() * std::ssize(shard);
  for (Piece piece{.op = call.op, .reduction = reduction, .source = full.data()};
       piece.index < num_pieces(full.size(), reduction); ++piece.index) {
    const PieceRange own = range_of(piece, full.size(), rank());
    std::byte* const target = shard.data() + own.begin_bytes - shard_begin;
    std::byte* const result = reduction.travels_in_bf16 ? result_slot() : target;
    reduce_piece(piece, full.size(), result);
    unpack(result, target, own.num_elems, reduction);
  }
  finish(call);
}

// ---- Messages ----

void MpiCommunicator::exchange(std::span<const Transfer> transfers) {
  checks_.check_transfers(transfers);
  std::int64_t sent_bytes = 0;
  for (const Transfer& transfer : transfers) {
    begin(transfer);
    sent_bytes += std::ssize(transfer.outgoing);
  }
  // Whichever message can move does: a peer of a later transfer may have to go on before the peer
  // of an earlier one can come.
  for (;;) {
    const std::uint32_t seen_news = mailbox_.news.load(std::memory_order_acquire);
    for (const Transfer& transfer : transfers) advance(transfer);
    const bool is_finished =
        std::all_of(transfers.begin(), transfers.end(), [this](const Transfer& transfer) {
          return pending_of(transfer).state == MessageState::kDone;
        });
    if (is_finished) break;
    host_.thread.wait_for_news(mailbox_, seen_news);
  }
  count_bytes_sent(sent_bytes);
}

MpiCommunicator::Pending& MpiCommunicator::pending_of(const Transfer& transfer) {
  return pending_[2 * static_cast<std::size_t>(transfer.peer) + (transfer.is_send ? 1U : 0U)];
}

void MpiCommunicator::begin(const Transfer& transfer) {
  Pending& pending = pending_of(transfer);
  pending.own = header_of(transfer);
  pending.state = MessageState::kMeeting;
  const int peer = world_rank(transfer.peer);
  const int own_tag = tag_of(transfer.is_send ? Kind::kCallOrSend : Kind::kRecv);
  const int other_tag = tag_of(transfer.is_send ? Kind::kRecv : Kind::kCallOrSend);
  pending.batch.clear();
  pending.batch.add_recv(peer, other_tag, std::as_writable_bytes(std::span(&pending.other, 1)));
  pending.batch.add_send(peer, own_tag, std::as_bytes(std::span(&pending.own, 1)));
  host_.thread.post(pending.batch, mailbox_);
}

void MpiCommunicator::advance(const Transfer& transfer) {
  Pending& pending = pending_of(transfer);
  if (pending.state == MessageState::kDone) return;
  const CommOp op = transfer.is_send ? CommOp::kSend : CommOp::kRecv;
  if (pending.batch.state() == MpiBatch::State::kLost) throw_lost(op);
  if (pending.batch.state() != MpiBatch::State::kDone) return;
  if (pending.state == MessageState::kMoving) {
    pending.state = MessageState::kDone;
    return;
  }
  if (!(pending.own == pending.other)) {
    const Header& sent = transfer.is_send ? pending.own : pending.other;
    const Header& wanted = transfer.is_send ? pending.other : pending.own;
    const auto is_message = [](const Header& header) {
      return header.op == static_cast<std::int32_t>(CommOp::kSend);
    };
    fail(is_message(pending.other)
             ? checks_.disagreement(transfer, message_of(sent), message_of(wanted))
             : checks_.disagreement(transfer.peer, call_of(pending.other), rank(),
                                    {.op = op, .full_bytes = pending.own.num_bytes}));
  }
  pending.batch.clear();
  pending.state = MessageState::kMoving;
  const int peer = world_rank(transfer.peer);
  const int tag = tag_of(Kind::kContent);
  transfer.is_send ? pending.batch.add_send(peer, tag, transfer.outgoing)
                   : pending.batch.add_recv(peer, tag, transfer.incoming);
  if (pending.batch.is_empty()) {
    pending.state = MessageState::kDone;
  } else {
    host_.thread.post(pending.batch, mailbox_);
  }
}

// ---- Errors ----

// Peers may still write into buffers of this call: not after MPI has stopped.
void MpiCommunicator::fail(const std::string& message) {
  host_.thread.stop();
  host_.abort(std::make_exception_ptr(UsageError(message)));
  throw UsageError(message);
}

void MpiCommunicator::throw_lost(CommOp op) const {
  throw PeerLost(fmt::format("{}: {}", checks_.where(op), host_.loss()));
}

}  // namespace trireme
