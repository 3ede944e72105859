#include "trireme/comm/threads/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/comm/rank_order_reduce.h"

namespace trireme {

namespace {

void copy_bytes(const std::byte* from, std::byte* to, std::size_t num_bytes) {
  if (num_bytes > 0 && from != to) std::memcpy(to, from, num_bytes);
}

}  // namespace

ThreadCommunicator::ThreadCommunicator(ThreadWorld& world, ThreadGroup& group, int member,
                                       const ThreadWorldOptions& options)
    : Communicator(member, group.size()),
      world_(world),
      group_(group),
      checks_(group, member),
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
  const CollectiveCall call = checks_.broadcast(buffer, root);
  run(call, buffer.data(), nullptr, [&] {
    copy_bytes(group_.posted[static_cast<std::size_t>(root)].source, buffer.data(), buffer.size());
  });
}

void ThreadCommunicator::scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                                 int root) {
  const CollectiveCall call = checks_.scatter(full, shard, root);
  run(call, full.data(), nullptr, [&] {
    const std::byte* root_full = group_.posted[static_cast<std::size_t>(root)].source;
    if (!shard.empty()) {
      copy_bytes(root_full + rank() * std::ssize(shard), shard.data(), shard.size());
    }
  });
}

void ThreadCommunicator::gather(std::span<const std::byte> shard, std::span<std::byte> full,
                                int root) {
  const CollectiveCall call = checks_.gather(shard, full, root);
  run(call, nullptr, full.data(), [&] {
    std::byte* root_full = group_.posted[static_cast<std::size_t>(root)].target;
    if (!shard.empty()) {
      copy_bytes(shard.data(), root_full + rank() * std::ssize(shard), shard.size());
    }
  });
}

void ThreadCommunicator::reduce(std::span<std::byte> buffer, Reduction reduction, int root) {
  const CollectiveCall call = checks_.reduce(buffer, reduction, root);
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
  const CollectiveCall call = checks_.all_reduce(buffer, reduction);
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
  const CollectiveCall call = checks_.reduce_scatter(full, shard, reduction);
  run(call, full.data(), nullptr, [&] {
    if (shard.empty()) return;
    targets_[0] = shard.data();
    reduce_cut(reduction, own_cut(full.size(), reduction), std::span(targets_).first(1));
  });
}

void ThreadCommunicator::all_gather(std::span<const std::byte> shard, std::span<std::byte> full) {
  const CollectiveCall call = checks_.all_gather(shard, full);
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
  const CollectiveCall call = checks_.all_to_all(outgoing, incoming);
  run(call, outgoing.data(), nullptr, [&] {
    const std::size_t part_bytes = outgoing.size() / static_cast<std::size_t>(size());
    if (part_bytes == 0) return;
    std::byte* part = incoming.data();
    for (const PostedCall& member : group_.posted) {
      copy_bytes(member.source + static_cast<std::size_t>(rank()) * part_bytes, part, part_bytes);
      part += part_bytes;
    }
  });
}

ByteCut ThreadCommunicator::own_cut(std::size_t num_bytes, Reduction reduction) const {
  return cut_of(num_bytes, reduction, size(), rank());
}

void ThreadCommunicator::reduce_cut(Reduction reduction, const ByteCut& cut,
                                    std::span<std::byte* const> targets) {
  for (std::size_t member = 0; member < sources_.size(); ++member) {
    sources_[member] = group_.posted[member].source + cut.begin_bytes;
  }
  reduce_in_rank_order(sources_, targets, cut.elems.count, reduction);
}

// ---- Errors ----

// Every member compares the same posts in the same order, so all find the same pair.
std::string ThreadCommunicator::disagreement() const {
  const CollectiveCall& first = group_.posted[0].call;
  for (int member = 1; member < size(); ++member) {
    const CollectiveCall& other = group_.posted[static_cast<std::size_t>(member)].call;
    if (other == first) continue;
    return checks_.disagreement(0, first, member, other);
  }
  return {};
}

void ThreadCommunicator::abort_world(const std::string& message) {
  world_.abort(group_.world_ranks()[static_cast<std::size_t>(rank())],
               std::make_exception_ptr(UsageError(message)));
}

void ThreadCommunicator::throw_lost(CommOp op) {
  if (const std::optional<FirstCause> cause = world_.first_cause()) {
    throw PeerLost(fmt::format("{}: world rank {} failed first, with: {}", checks_.where(op),
                               cause->rank, cause->message));
  }
  const std::optional<int> departed = group_.departed_member();
  TRI_CHECK(departed.has_value());
  const std::string message =
      fmt::format("{}: {} has ended and makes no more calls; {}", checks_.where(op),
                  group_.member_name(*departed), kSameCalls);
  abort_world(message);
  throw UsageError(message);
}

}  // namespace trireme
