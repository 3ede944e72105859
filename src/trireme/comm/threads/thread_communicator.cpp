#include "trireme/comm/threads/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/comm/threads/rank_order_reduce.h"

namespace trireme {

namespace {

constexpr const char* kSameCalls =
    "all members of a group make the same calls in the same order; compare the ranks' programs "
    "(rule V6)";

void copy_bytes(const std::byte* from, std::byte* to, std::size_t num_bytes) {
  if (num_bytes > 0 && from != to) std::memcpy(to, from, num_bytes);
}

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

}  // namespace

ThreadCommunicator::ThreadCommunicator(ThreadWorld& world, ThreadGroup& group, int member,
                                       const ThreadWorldOptions& options)
    : Communicator(member, group.size()),
      world_(world),
      group_(group),
      spin_count_(options.spin_count),
      link_(options.link),
      sources_(static_cast<std::size_t>(group.size())),
      targets_(static_cast<std::size_t>(group.size())),
      pending_(static_cast<std::size_t>(2 * group.size())) {}

template <typename Move>
void ThreadCommunicator::run(const CollectiveCall& call, const std::byte* source, std::byte* target,
                             Move move) {
  group_.posted[static_cast<std::size_t>(rank())] = {
      .call = call, .source = source, .target = target};
  const std::uint32_t entry_round = group_.entry.arrive();
  meet(call.op, entry_round);
  const auto met_at = Clock::now();
  const std::string mismatch = disagreement();
  if (mismatch.empty()) move();
  const std::uint32_t exit_round = group_.exit.arrive();
  TRI_CHECK(group_.exit.wait(exit_round, spin_count_));
  if (!mismatch.empty()) {
    abort_world(mismatch);
    throw UsageError(mismatch);
  }
  finish(call, met_at);
}

void ThreadCommunicator::meet(CommOp op, std::uint32_t entry_round) {
  if (group_.entry.spin(entry_round, spin_count_) == GateState::kWaiting) {
    if (const std::string deadlock = group_.deadlock(); !deadlock.empty()) {
      abort_world(deadlock);
      throw UsageError(deadlock);
    }
  }
  if (!group_.entry.wait(entry_round, 0)) throw_lost(op);
}

void ThreadCommunicator::finish(const CollectiveCall& call, Clock::time_point met_at) {
  count_bytes_sent(trireme::bytes_sent(traffic_of(call, size(), rank())));
  std::int64_t busiest_bytes = 0;
  for (int member = 0; link_.bytes_per_second > 0 && member < size(); ++member) {
    busiest_bytes = std::max(busiest_bytes, trireme::bytes_sent(traffic_of(call, size(), member)));
  }
  sleep_for_link(met_at, message_steps(call.op, size()), busiest_bytes);
}

void ThreadCommunicator::sleep_for_link(Clock::time_point met_at, int num_steps,
                                        std::int64_t busiest_bytes) const {
  double seconds = num_steps * link_.latency_seconds;
  if (link_.bytes_per_second > 0) {
    seconds += static_cast<double>(busiest_bytes) / link_.bytes_per_second;
  }
  if (seconds <= 0) return;
  std::this_thread::sleep_until(
      met_at + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

void ThreadCommunicator::barrier() {
  run({.op = CommOp::kBarrier}, nullptr, nullptr, [] {});
}

void ThreadCommunicator::broadcast(std::span<std::byte> buffer, int root) {
  check_root(CommOp::kBroadcast, root);
  const CollectiveCall call{
      .op = CommOp::kBroadcast, .full_bytes = std::ssize(buffer), .root = root};
  run(call, buffer.data(), nullptr, [&] {
    copy_bytes(group_.posted[static_cast<std::size_t>(root)].source, buffer.data(), buffer.size());
  });
}

void ThreadCommunicator::scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                                 int root) {
  check_root(CommOp::kScatter, root);
  if (rank() == root) check_shards(CommOp::kScatter, full, shard);
  const CollectiveCall call{
      .op = CommOp::kScatter, .full_bytes = std::ssize(shard) * size(), .root = root};
  run(call, full.data(), nullptr, [&] {
    const std::byte* root_full = group_.posted[static_cast<std::size_t>(root)].source;
    if (!shard.empty()) {
      copy_bytes(root_full + rank() * std::ssize(shard), shard.data(), shard.size());
    }
  });
}

void ThreadCommunicator::gather(std::span<const std::byte> shard, std::span<std::byte> full,
                                int root) {
  check_root(CommOp::kGather, root);
  if (rank() == root) check_shards(CommOp::kGather, full, shard);
  const CollectiveCall call{
      .op = CommOp::kGather, .full_bytes = std::ssize(shard) * size(), .root = root};
  run(call, nullptr, full.data(), [&] {
    std::byte* root_full = group_.posted[static_cast<std::size_t>(root)].target;
    if (!shard.empty()) {
      copy_bytes(shard.data(), root_full + rank() * std::ssize(shard), shard.size());
    }
  });
}

void ThreadCommunicator::reduce(std::span<std::byte> buffer, Reduction reduction, int root) {
  check_root(CommOp::kReduce, root);
  check_elems(CommOp::kReduce, buffer, reduction);
  const CollectiveCall call{.op = CommOp::kReduce,
                            .full_bytes = std::ssize(buffer),
                            .reduction = reduction,
                            .root = root};
  run(call, buffer.data(), buffer.data(), [&] {
    const ByteCut cut = own_cut(buffer.size(), reduction);
    if (cut.elems.count == 0) return;
    targets_[0] = group_.posted[static_cast<std::size_t>(root)].target + cut.begin_bytes;
    reduce_cut(reduction, cut, std::span(targets_).first(1));
  });
}

// Each rank reduces its own cut and writes it to every buffer while it is in the cache. Cuts do
// not overlap and only their owner touches them, so this is as safe in place as a reduce-scatter.
void ThreadCommunicator::all_reduce(std::span<std::byte> buffer, Reduction reduction) {
  check_elems(CommOp::kAllReduce, buffer, reduction);
  const CollectiveCall call{
      .op = CommOp::kAllReduce, .full_bytes = std::ssize(buffer), .reduction = reduction};
  run(call, buffer.data(), buffer.data(), [&] {
    const ByteCut cut = own_cut(buffer.size(), reduction);
    if (cut.elems.count == 0) return;
    for (std::size_t member = 0; member < targets_.size(); ++member) {
      targets_[member] = group_.posted[member].target + cut.begin_bytes;
    }
    reduce_cut(reduction, cut, targets_);
  });
}

void ThreadCommunicator::reduce_scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                                        Reduction reduction) {
  check_shards(CommOp::kReduceScatter, full, shard);
  check_elems(CommOp::kReduceScatter, full, reduction);
  check_elems(CommOp::kReduceScatter, shard, reduction);
  const CollectiveCall call{
      .op = CommOp::kReduceScatter, .full_bytes = std::ssize(full), .reduction = reduction};
  run(call, full.data(), nullptr, [&] {
    if (shard.empty()) return;
    targets_[0] = shard.data();
    reduce_cut(reduction, own_cut(full.size(), reduction), std::span(targets_).first(1));
  });
}

void ThreadCommunicator::all_gather(std::span<const std::byte> shard, std::span<std::byte> full) {
  check_shards(CommOp::kAllGather, full, shard);
  const CollectiveCall call{.op = CommOp::kAllGather, .full_bytes = std::ssize(full)};
  run(call, shard.data(), nullptr, [&] {
    std::byte* part = full.data();
    for (const PostedCall& member : group_.posted) {
      copy_bytes(member.source, part, shard.size());
      part += shard.size();
    }
  });
}

void ThreadCommunicator::all_to_all(std::span<const std::byte> outgoing,
                                    std::span<std::byte> incoming) {
  const auto num_parts = static_cast<std::size_t>(size());
  if (outgoing.size() != incoming.size() || outgoing.size() % num_parts != 0) {
    throw UsageError(fmt::format(
        "{}: outgoing has {} bytes, incoming {}; both are {} equal parts, pad them to a multiple",
        where(CommOp::kAllToAll), outgoing.size(), incoming.size(), size()));
  }
  if (overlap(outgoing, incoming)) {
    throw UsageError(fmt::format("{}: outgoing and incoming overlap in {} bytes; use two buffers",
                                 where(CommOp::kAllToAll), outgoing.size()));
  }
  const CollectiveCall call{.op = CommOp::kAllToAll, .full_bytes = std::ssize(outgoing)};
  run(call, outgoing.data(), nullptr, [&] {
    const std::size_t part_bytes = outgoing.size() / num_parts;
    if (part_bytes == 0) return;
    std::byte* part = incoming.data();
    for (const PostedCall& member : group_.posted) {
      copy_bytes(member.source + static_cast<std::size_t>(rank()) * part_bytes, part, part_bytes);
      part += part_bytes;
    }
  });
}

ThreadCommunicator::ByteCut ThreadCommunicator::own_cut(std::size_t num_bytes,
                                                        Reduction reduction) const {
  const std::int64_t elem_bytes = dtype_bytes(reduction.dtype);
  const ElemRange elems = cut_elems(narrow<std::int64_t>(num_bytes) / elem_bytes, size(), rank());
  return {.elems = elems, .begin_bytes = elems.begin * elem_bytes};
}

void ThreadCommunicator::reduce_cut(Reduction reduction, const ByteCut& cut,
                                    std::span<std::byte* const> targets) {
  for (std::size_t member = 0; member < sources_.size(); ++member) {
    sources_[member] = group_.posted[member].source + cut.begin_bytes;
  }
  reduce_in_rank_order(sources_, targets, cut.elems.count, reduction);
}

// ---- Checks and errors ----

void ThreadCommunicator::check_root(CommOp op, int root) const {
  if (root >= 0 && root < size()) return;
  throw UsageError(
      fmt::format("{}: root {} is not a rank of the group, 0 to {}", where(op), root, size() - 1));
}

void ThreadCommunicator::check_elems(CommOp op, std::span<const std::byte> buffer,
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

void ThreadCommunicator::check_shards(CommOp op, std::span<const std::byte> full,
                                      std::span<const std::byte> shard) const {
  const auto num_shards = static_cast<std::size_t>(size());
  if (full.size() != shard.size() * num_shards) {
    throw UsageError(fmt::format("{}: full has {} bytes, shard {}; full is {} shards, pad it",
                                 where(op), full.size(), shard.size(), size()));
  }
  if (overlap(full, shard) &&
      shard.data() != full.data() + static_cast<std::size_t>(rank()) * shard.size()) {
    throw UsageError(fmt::format(
        "{}: the shard of {} bytes overlaps full elsewhere than at its own place, byte {}; use "
        "own_shard(full) or another buffer",
        where(op), shard.size(), static_cast<std::size_t>(rank()) * shard.size()));
  }
}

std::string ThreadCommunicator::where(CommOp op) const {
  return fmt::format("[comm] {} of {} in {}", comm_op_name(op), group_.member_name(rank()),
                     group_.description());
}

// Every member compares the same posts in the same order, so all find the same pair.
std::string ThreadCommunicator::disagreement() const {
  const CollectiveCall& first = group_.posted[0].call;
  for (int member = 1; member < size(); ++member) {
    const CollectiveCall& other = group_.posted[static_cast<std::size_t>(member)].call;
    if (other == first) continue;
    return fmt::format("[comm] in {}, {} called {} but {} called {}; {}", group_.description(),
                       group_.member_name(0), call_text(first), group_.member_name(member),
                       call_text(other), kSameCalls);
  }
  return {};
}

void ThreadCommunicator::abort_world(const std::string& message) {
  world_.abort(group_.world_ranks()[static_cast<std::size_t>(rank())],
               std::make_exception_ptr(UsageError(message)));
}

void ThreadCommunicator::throw_lost(CommOp op) {
  if (const std::optional<FirstCause> cause = world_.first_cause()) {
    throw PeerLost(fmt::format("{}: world rank {} failed first, with: {}", where(op), cause->rank,
                               cause->message));
  }
  const std::optional<int> departed = group_.departed_member();
  TRI_CHECK(departed.has_value());
  const std::string message = fmt::format("{}: {} has ended and makes no more calls; {}", where(op),
                                          group_.member_name(*departed), kSameCalls);
  abort_world(message);
  throw UsageError(message);
}

}  // namespace trireme
