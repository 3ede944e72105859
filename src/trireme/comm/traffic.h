// What an operation moves: the cut of a buffer over ranks, bytes sent, message steps.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

enum class CommOp : std::uint8_t {
  kSend,
  kRecv,
  kBarrier,
  kBroadcast,
  kScatter,
  kGather,
  kReduce,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
};

/// "send", "all_reduce", ...
[[nodiscard]] std::string_view comm_op_name(CommOp op);

/// Elements [begin, begin + count) of a buffer.
struct ElemRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const ElemRange&) const = default;
};

/// The rank-th of `size` runs of `num_elems` elements; the first num_elems mod size runs have one
/// element more than the rest.
[[nodiscard]] ElemRange cut_elems(std::int64_t num_elems, int size, int rank);

/// One operation as one rank sees it.
struct CommCall {
  CommOp op = CommOp::kBarrier;
  std::int64_t num_elems = 0;   ///< Of the full buffer: all shards, the whole message.
  std::int64_t elem_bytes = 1;  ///< Matters only for the uneven cut of reduce and all_reduce.
  int size = 1;
  int rank = 0;
  int root = 0;  ///< Of broadcast, scatter, gather and reduce.
};

/// Bytes that leave the rank, full buffer P, size n, own cut p (= P/n when n divides the elements):
///   reduce_scatter, all_to_all P - p (= P(n-1)/n)      send P                    barrier, recv 0
///   all_gather p(n-1) (= P(n-1)/n)                     broadcast P(n-1) on the root
///   all_reduce (P - p) + p(n-1) (= 2P(n-1)/n)          scatter P - p on the root, gather p
///   elsewhere reduce (P - p), and p to the root elsewhere (= P)
/// An all-reduce is a reduce-scatter and an all-gather (ZeRO, arXiv:1910.02054, §7.1); over all
/// ranks it sends 2P(n-1) whatever the cut.
[[nodiscard]] std::int64_t bytes_sent(const CommCall& call);

/// Messages one after another: n-1, all_reduce and reduce 2(n-1), send and recv 1.
[[nodiscard]] int message_steps(CommOp op, int size);

}  // namespace trireme
