// A call as the members of a group must agree on it, and the checks of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trireme/comm/communicator.h"
#include "trireme/comm/group.h"
#include "trireme/comm/traffic.h"

namespace trireme {

/// What all members must agree on (rule V6).
struct CollectiveCall {
  CommOp op = CommOp::kBarrier;
  std::int64_t full_bytes = 0;
  Reduction reduction = {};
  int root = 0;
  bool operator==(const CollectiveCall&) const = default;
};

/// What both sides of a message must agree on (rule V7).
struct MessageCall {
  int tag = 0;
  std::int64_t num_bytes = 0;
  bool operator==(const MessageCall&) const = default;
};

inline constexpr const char* kSameCalls =
    "all members of a group make the same calls in the same order; compare the ranks' programs "
    "(rule V6)";

/// What member `rank` of `size` sends for the call.
[[nodiscard]] CommCall traffic_of(const CollectiveCall& call, int size, int rank);

/// A cut of a buffer that is reduced.
struct ByteCut {
  ElemRange elems = {};
  std::int64_t begin_bytes = 0;
};
[[nodiscard]] ByteCut cut_of(std::size_t num_bytes, Reduction reduction, int size, int rank);

/// Checks the arguments of one member's calls and words what is wrong with them: UsageError.
class CallChecks {
 public:
  /// `group` outlives it.
  CallChecks(const Group& group, int rank) : group_(group), rank_(rank) {}

  // The calls of Communicator's collectives, from their checked arguments.
  [[nodiscard]] CollectiveCall broadcast(std::span<const std::byte> buffer, int root) const;
  [[nodiscard]] CollectiveCall scatter(std::span<const std::byte> full,
                                       std::span<const std::byte> shard, int root) const;
  [[nodiscard]] CollectiveCall gather(std::span<const std::byte> shard,
                                      std::span<const std::byte> full, int root) const;
  [[nodiscard]] CollectiveCall reduce(std::span<const std::byte> buffer, Reduction reduction,
                                      int root) const;
  [[nodiscard]] CollectiveCall all_reduce(std::span<const std::byte> buffer,
                                          Reduction reduction) const;
  [[nodiscard]] CollectiveCall reduce_scatter(std::span<const std::byte> full,
                                              std::span<const std::byte> shard,
                                              Reduction reduction) const;
  [[nodiscard]] CollectiveCall all_gather(std::span<const std::byte> shard,
                                          std::span<const std::byte> full) const;
  [[nodiscard]] CollectiveCall all_to_all(std::span<const std::byte> outgoing,
                                          std::span<const std::byte> incoming) const;
  void check_transfers(std::span<const Transfer> transfers) const;

  /// "[comm] all_reduce of rank 0 (world rank 2) in group 'dp' of ranks {2, 3}".
  [[nodiscard]] std::string where(CommOp op) const;
  /// The members' calls differ.
  [[nodiscard]] std::string disagreement(int member, const CollectiveCall& call, int other_member,
                                         const CollectiveCall& other_call) const;
  /// The two sides of this rank's transfer differ.
  [[nodiscard]] std::string disagreement(const Transfer& transfer, const MessageCall& sent,
                                         const MessageCall& wanted) const;

 private:
  void check_root(CommOp op, int root) const;
  /// Whole, aligned elements of a type that can be reduced.
  void check_elems(CommOp op, std::span<const std::byte> buffer, Reduction reduction) const;
  void check_shards(CommOp op, std::span<const std::byte> full,
                    std::span<const std::byte> shard) const;
  /// Of scatter and gather, whose full buffer the root alone has.
  [[nodiscard]] CollectiveCall with_root(CommOp op, std::span<const std::byte> full,
                                         std::span<const std::byte> shard, int root) const;

  const Group& group_;
  int rank_;
};

}  // namespace trireme
