#include "trireme/comm/call.h"

#include <functional>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

bool is_reduction(CommOp op) {
  return op == CommOp::kReduce || op == CommOp::kAllReduce || op == CommOp::kReduceScatter;
}

bool has_root(CommOp op) {
  return op == CommOp::kBroadcast || op == CommOp::kScatter || op == CommOp::kGather ||
         op == CommOp::kReduce;
}

std::string call_text(const CollectiveCall& call) {
  std::string text{comm_op_name(call.op)};
  if (is_reduction(call.op)) {
    text += fmt::format(" {} of {}", call.reduction.op == ReduceOp::kSum ? "sum" : "max",
                        dtype_name(call.reduction.dtype));
  }
  if (call.op != CommOp::kBarrier) text += fmt::format(", {} bytes", call.full_bytes);
  if (has_root(call.op)) text += fmt::format(", root {}", call.root);
  return text;
}

}  // namespace

CommCall traffic_of(const CollectiveCall& call, int size, int rank) {
  const Reduction& reduction = call.reduction;
  const std::int64_t elem_bytes = is_reduction(call.op) ? dtype_bytes(reduction.dtype) : 1;
  return {.op = call.op,
          .num_elems = call.full_bytes / elem_bytes,
          .elem_bytes = reduction.travels_in_bf16 ? dtype_bytes(DType::kBf16) : elem_bytes,
          .size = size,
          .rank = rank,
          .root = call.root};
}

ByteCut cut_of(std::size_t num_bytes, Reduction reduction, int size, int rank) {
  const std::int64_t elem_bytes = dtype_bytes(reduction.dtype);
  const ElemRange elems = cut_elems(narrow<std::int64_t>(num_bytes) / elem_bytes, size, rank);
  return {.elems = elems, .begin_bytes = elems.begin * elem_bytes};
}

void CallChecks::check_root(CommOp op, int root) const {
  if (root >= 0 && root < group_.size()) return;
  throw UsageError(fmt::format("{}: root {} is not a rank of the group, 0 to {}", where(op), root,
                               group_.size() - 1));
}

void CallChecks::check_elems(CommOp op, std::span<const std::byte> buffer,
                             Reduction reduction) const {
  if (reduction.dtype != DType::kF32 && reduction.dtype != DType::kF64 &&
      reduction.dtype != DType::kBf16) {
    throw UsageError(fmt::format("{}: no reduction of {}; convert to f32, f64 or bf16", where(op),
                                 dtype_name(reduction.dtype)));
  }
  if (reduction.travels_in_bf16 &&
      (reduction.dtype != DType::kF32 || reduction.op != ReduceOp::kSum)) {
    throw UsageError(fmt::format("{}: {} that travels in bf16; only sums of f32 do", where(op),
                                 dtype_name(reduction.dtype)));
  }
  const auto elem_bytes = static_cast<std::size_t>(dtype_bytes(reduction.dtype));
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  if (buffer.size() % elem_bytes != 0 || address % elem_bytes != 0) {
    throw UsageError(fmt::format(
        "{}: {} bytes at an address that is {} mod {} are not whole, aligned elements "
        "of {}; pass a span of elements",
        where(op), buffer.size(), address % elem_bytes, elem_bytes, dtype_name(reduction.dtype)));
  }
}

void CallChecks::check_shards(CommOp op, std::span<const std::byte> full,
                              std::span<const std::byte> shard) const {
  const auto num_shards = static_cast<std::size_t>(group_.size());
  if (full.size() != shard.size() * num_shards) {
    throw UsageError(fmt::format("{}: full has {} bytes, shard {}; full is {} shards, pad it",
                                 where(op), full.size(), shard.size(), num_shards));
  }
  const std::size_t own_begin = static_cast<std::size_t>(rank_) * shard.size();
  if (overlap(full, shard) && shard.data() != full.data() + own_begin) {
    throw UsageError(fmt::format(
        "{}: the shard of {} bytes overlaps full elsewhere than at its own place, byte {}; use "
        "own_shard(full) or another buffer",
        where(op), shard.size(), own_begin));
  }
}

CollectiveCall CallChecks::broadcast(std::span<const std::byte> buffer, int root) const {
  check_root(CommOp::kBroadcast, root);
  return {.op = CommOp::kBroadcast, .full_bytes = std::ssize(buffer), .root = root};
}

CollectiveCall CallChecks::with_root(CommOp op, std::span<const std::byte> full,
                                     std::span<const std::byte> shard, int root) const {
  check_root(op, root);
  if (rank_ == root) check_shards(op, full, shard);
  return {.op = op, .full_bytes = std::ssize(shard) * group_.size(), .root = root};
}

CollectiveCall CallChecks::scatter(std::span<const std::byte> full,
                                   std::span<const std::byte> shard, int root) const {
  return with_root(CommOp::kScatter, full, shard, root);
}

CollectiveCall CallChecks::gather(std::span<const std::byte> shard, std::span<const std::byte> full,
                                  int root) const {
  return with_root(CommOp::kGather, full, shard, root);
}

CollectiveCall CallChecks::reduce(std::span<const std::byte> buffer, Reduction reduction,
                                  int root) const {
  check_root(CommOp::kReduce, root);
  check_elems(CommOp::kReduce, buffer, reduction);
  return {.op = CommOp::kReduce,
          .full_bytes = std::ssize(buffer),
          .reduction = reduction,
          .root = root};
}

CollectiveCall CallChecks::all_reduce(std::span<const std::byte> buffer,
                                      Reduction reduction) const {
  check_elems(CommOp::kAllReduce, buffer, reduction);
  return {.op = CommOp::kAllReduce, .full_bytes = std::ssize(buffer), .reduction = reduction};
}

CollectiveCall CallChecks::reduce_scatter(std::span<const std::byte> full,
                                          std::span<const std::byte> shard,
                                          Reduction reduction) const {
  check_shards(CommOp::kReduceScatter, full, shard);
  check_elems(CommOp::kReduceScatter, full, reduction);
  check_elems(CommOp::kReduceScatter, shard, reduction);
  return {.op = CommOp::kReduceScatter, .full_bytes = std::ssize(full), .reduction = reduction};
}

CollectiveCall CallChecks::all_gather(std::span<const std::byte> shard,
                                      std::span<const std::byte> full) const {
  check_shards(CommOp::kAllGather, full, shard);
  return {.op = CommOp::kAllGather, .full_bytes = std::ssize(full)};
}

CollectiveCall CallChecks::all_to_all(std::span<const std::byte> outgoing,
                                      std::span<const std::byte> incoming) const {
  const auto num_parts = static_cast<std::size_t>(group_.size());
  if (outgoing.size() != incoming.size() || outgoing.size() % num_parts != 0) {
    throw UsageError(fmt::format(
        "{}: outgoing has {} bytes, incoming {}; both are {} equal parts, pad them to a multiple",
        where(CommOp::kAllToAll), outgoing.size(), incoming.size(), num_parts));
  }
  if (overlap(outgoing, incoming)) {
    throw UsageError(fmt::format("{}: outgoing and incoming overlap in {} bytes; use two buffers",
                                 where(CommOp::kAllToAll), outgoing.size()));
  }
  return {.op = CommOp::kAllToAll, .full_bytes = std::ssize(outgoing)};
}

void CallChecks::check_transfers(std::span<const Transfer> transfers) const {
  for (std::size_t index = 0; index < transfers.size(); ++index) {
    const Transfer& transfer = transfers[index];
    const CommOp op = transfer.is_send ? CommOp::kSend : CommOp::kRecv;
    if (transfer.peer < 0 || transfer.peer >= group_.size() || transfer.peer == rank_) {
      throw UsageError(fmt::format("{}: peer {} is not another rank of the group, 0 to {}",
                                   where(op), transfer.peer, group_.size() - 1));
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

std::string CallChecks::where(CommOp op) const {
  return fmt::format("[comm] {} of {} in {}", comm_op_name(op), group_.member_name(rank_),
                     group_.description());
}

std::string CallChecks::disagreement(int member, const CollectiveCall& call, int other_member,
                                     const CollectiveCall& other_call) const {
  return fmt::format("[comm] in {}, {} called {} but {} called {}; {}", group_.description(),
                     group_.member_name(member), call_text(call), group_.member_name(other_member),
                     call_text(other_call), kSameCalls);
}

std::string CallChecks::disagreement(const Transfer& transfer, const MessageCall& sent,
                                     const MessageCall& wanted) const {
  const int sender = transfer.is_send ? rank_ : transfer.peer;
  const int receiver = transfer.is_send ? transfer.peer : rank_;
  return fmt::format(
      "[comm] in {}, {} sends {} bytes with tag {} but {} receives {} bytes with tag {}; the k-th "
      "send of a pair meets its k-th receive with equal tag and bytes (rule V7)",
      group_.description(), group_.member_name(sender), sent.num_bytes, sent.tag,
      group_.member_name(receiver), wanted.num_bytes, wanted.tag);
}

}  // namespace trireme
