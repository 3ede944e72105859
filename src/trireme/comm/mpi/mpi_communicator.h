// The communicator of a rank that is a process. Private to mpi/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/call.h"
#include "trireme/comm/communicator.h"
#include "trireme/comm/group.h"
#include "trireme/comm/mpi/mpi_thread.h"

namespace trireme {

/// The number of a group and purpose among those of a run: makes its messages its own.
[[nodiscard]] std::uint32_t group_number(const Group& group);

/// Operations are built of messages between pairs, in rank order. First all members tell each other
/// their call, and both sides of a message what they send and expect: that is where they meet and
/// where calls that differ are found. Reductions go in pieces: each rank receives the others' piece
/// of its cut, adds in rank order with the arithmetic of thread ranks, and passes the sum on. A
/// mismatch ends the run: a member that learns of it from another throws PeerLost with its words.
class MpiCommunicator final : public Communicator {
 public:
  struct Host {
    MpiThread& thread;
    /// Ends the run: called before what a mismatch throws.
    std::function<void(std::exception_ptr)> abort;
    /// "world rank 2 failed first, with: ...".
    std::function<std::string()> loss;
  };
  /// `host` outlives it. Allocates staging of `staging_bytes`.
  MpiCommunicator(const Host& host, Group group, int member, std::int64_t staging_bytes);

  void exchange(std::span<const Transfer> transfers) override;
  void barrier() override;
  void broadcast(std::span<std::byte> buffer, int root) override;
  void scatter(std::span<const std::byte> full, std::span<std::byte> shard, int root) override;
  void gather(std::span<const std::byte> shard, std::span<std::byte> full, int root) override;
  void reduce(std::span<std::byte> buffer, Reduction reduction, int root) override;
  void all_reduce(std::span<std::byte> buffer, Reduction reduction) override;
  void reduce_scatter(std::span<const std::byte> full, std::span<std::byte> shard,
                      Reduction reduction) override;
  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full) override;
  void all_to_all(std::span<const std::byte> outgoing, std::span<std::byte> incoming) override;

 private:
  /// What is said before anything else moves.
  struct Header {
    std::uint64_t group = 0;
    std::int64_t num_bytes = 0;
    std::int32_t op = 0;
    std::int32_t root_or_tag = 0;
    std::int32_t dtype = 0;
    std::int32_t reduce_op = 0;
    std::int32_t travels_in_bf16 = 0;
    std::int32_t unused = 0;
    bool operator==(const Header&) const = default;
  };
  enum class Kind : std::uint8_t { kCallOrSend, kRecv, kContent };
  enum class MessageState : std::uint8_t { kMeeting, kMoving, kDone };
  /// One direction of one peer in an exchange.
  struct Pending {
    MpiBatch batch{2};
    Header own = {};
    Header other = {};
    MessageState state = MessageState::kDone;
  };

  [[nodiscard]] int tag_of(Kind kind) const;
  [[nodiscard]] int world_rank(int member) const {
    return group_.world_ranks()[static_cast<std::size_t>(member)];
  }
  [[nodiscard]] Header header_of(const CollectiveCall& call) const;
  [[nodiscard]] Header header_of(const Transfer& transfer) const;
  [[nodiscard]] static CollectiveCall call_of(const Header& header);
  [[nodiscard]] static MessageCall message_of(const Header& header);

  /// All members say their call; returns when they agree.
  void meet(const CollectiveCall& call);
  void finish(const CollectiveCall& call);
  void send_part(int member, std::span<const std::byte> bytes);
  void receive_part(int member, std::span<std::byte> bytes);
  /// Moves the parts that were added.
  void move_parts(CommOp op);

  void begin(const Transfer& transfer);
  /// Takes the transfer as far as it goes without waiting.
  void advance(const Transfer& transfer);
  [[nodiscard]] Pending& pending_of(const Transfer& transfer);

  /// The reductions of a buffer, piece by piece.
  struct Piece {
    CommOp op{};
    Reduction reduction = {};
    const std::byte* source = nullptr;  ///< this rank's whole buffer
    std::int64_t index = 0;
  };
  [[nodiscard]] std::int64_t num_pieces(std::size_t num_bytes, Reduction reduction) const;
  /// Bytes of `member`'s piece in a whole buffer.
  struct PieceRange {
    std::int64_t begin_bytes = 0;
    std::int64_t num_elems = 0;
  };
  [[nodiscard]] PieceRange range_of(const Piece& piece, std::size_t num_bytes, int member) const;
  /// The sum of all ranks' own piece of this rank, as it travels, in `result`.
  void reduce_piece(const Piece& piece, std::size_t num_bytes, std::byte* result);
  /// A slot of the staging for elements as they travel: `size()` received, `size()` packed, the
  /// result.
  [[nodiscard]] std::byte* received_slot(int member);
  [[nodiscard]] std::byte* packed_slot(int member);
  [[nodiscard]] std::byte* result_slot();
  /// The bytes of a piece as they travel: themselves, or rounded into `slot`.
  [[nodiscard]] std::span<const std::byte> packed(const Piece& piece, const PieceRange& range,
                                                  std::byte* slot) const;

  [[noreturn]] void fail(const std::string& message);
  [[noreturn]] void throw_lost(CommOp op) const;

  const Host& host_;
  Group group_;
  CallChecks checks_;
  std::uint32_t number_;
  MpiMailbox& mailbox_;
  MpiBatch batch_;                ///< of collectives
  std::vector<Header> headers_;   ///< by member
  std::vector<Pending> pending_;  ///< two a member: receive, send
  std::vector<std::byte> staging_;
  std::int64_t slot_bytes_;
  std::vector<const std::byte*> sources_;  ///< of one reduction
};

}  // namespace trireme
