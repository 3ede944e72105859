// The backend seam of communication: what one rank may ask of its group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/base/dtype.h"

namespace trireme {

enum class ReduceOp : std::uint8_t {
  kSum,
  kMax,  ///< A NaN on any rank makes the result NaN.
};

/// How elements of all ranks become one. `dtype` is kF32, kF64 or kBf16.
struct Reduction {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  /// Sums of kF32 only: each contribution, and the sum, is rounded to bf16 and travels as such;
  /// additions are fp32.
  bool travels_in_bf16 = false;
  bool operator==(const Reduction&) const = default;
};

/// One message of an exchange: exactly one of `outgoing` and `incoming` is used, as `is_send` says.
struct Transfer {
  bool is_send = false;
  int peer = 0;  ///< Rank in the group.
  int tag = 0;
  std::span<const std::byte> outgoing = {};
  std::span<std::byte> incoming = {};
};

/// One rank's end of a (group, purpose). Used by one thread at a time, a stream of that rank; a
/// call returns when the operation is complete for this rank: results are in place and every buffer
/// it passed may be changed again. Asynchrony is the stream thread's. Ranks are ranks in the group.
///
/// All members make the same collective calls in the same order (op, bytes, dtype, reduction, root:
/// rule V6), and the k-th send of a pair meets its k-th receive with equal tag and bytes (V7). A
/// violation throws UsageError naming both sides, on every member that took part; so does a
/// buffer of the wrong size. A failed or aborted peer makes the call throw PeerLost.
///
/// Reductions add in rank order in the element's type, ((r0 + r1) + r2) + ... (bf16 in fp32,
/// rounded once), so results are bitwise equal on all ranks, across runs, and however a buffer is
/// cut into calls.
///
/// More than 8 virtual functions: one per operation, so that each states its own shapes.
class Communicator {
 public:
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator&&) = delete;
  virtual ~Communicator() = default;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Blocks until the peer has received `message`; the peer is not this rank.
  void send(std::span<const std::byte> message, int peer, int tag);
  void recv(std::span<std::byte> message, int peer, int tag);

  /// All transfers at once, in no order: a ring step {send next, recv previous} cannot deadlock.
  /// At most one send and one receive per peer.
  virtual void exchange(std::span<const Transfer> transfers) = 0;

  virtual void barrier() = 0;

  /// Copies the root's `buffer` to all.
  virtual void broadcast(std::span<std::byte> buffer, int root) = 0;

  /// `shard` becomes the rank-th of size() equal parts of the root's `full` (empty elsewhere).
  /// On the root `shard` may be its own part of `full`; else they do not overlap.
  virtual void scatter(std::span<const std::byte> full, std::span<std::byte> shard, int root) = 0;

  /// Inverse of scatter, same rules.
  virtual void gather(std::span<const std::byte> shard, std::span<std::byte> full, int root) = 0;

  /// The root's `buffer` becomes the reduction of all; the others' buffers keep their values. Any
  /// number of elements.
  virtual void reduce(std::span<std::byte> buffer, Reduction reduction, int root) = 0;

  /// Every rank's `buffer` becomes the reduction of all. Any number of elements.
  virtual void all_reduce(std::span<std::byte> buffer, Reduction reduction) = 0;

  /// `shard` becomes the reduction of the rank-th of size() equal parts of all ranks' `full`.
  /// `shard` is this rank's part of `full` (in place) or does not overlap it; the rest of `full`
  /// keeps its values.
  virtual void reduce_scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                              Reduction reduction) = 0;

  /// `full` becomes the shards of all in rank order. `shard` is this rank's part of `full` (in
  /// place) or does not overlap it.
  virtual void all_gather(std::span<const std::byte> shard, std::span<std::byte> full) = 0;

  /// Part r of rank q's `outgoing` becomes part q of rank r's `incoming`; size() equal parts, no
  /// overlap between the two.
  virtual void all_to_all(std::span<const std::byte> outgoing, std::span<std::byte> incoming) = 0;

  /// This rank's part of `full`: bytes [rank, rank + 1) * full.size() / size(). UsageError unless
  /// size() divides full.size().
  [[nodiscard]] std::span<std::byte> own_shard(std::span<std::byte> full) const;

  /// The in-place forms on a full buffer.
  void reduce_scatter_in_place(std::span<std::byte> full, Reduction reduction);
  void all_gather_in_place(std::span<std::byte> full);

  /// Bytes of completed operations that left this rank (traffic.h has the closed forms). Read it
  /// from the thread that makes the calls, or after that thread has handed over.
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_; }
  void reset_bytes_sent() { bytes_sent_ = 0; }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  void count_bytes_sent(std::int64_t bytes) { bytes_sent_ += bytes; }

 private:
  int rank_;
  int size_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace trireme
