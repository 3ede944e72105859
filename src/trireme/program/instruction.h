// The instruction set: one record per operation of a training step, with every operand explicit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"

namespace trireme {

/// What an instruction does. FWD, BWD, BWD_I (input half), BWD_W (weight half) and RECOMP act on a
/// Part.
enum class Op : std::uint8_t {
  kLoad,   ///< copies tokens, labels and global sample numbers of one micro-batch in
  kCount,  ///< writes the number of this rank's valid target tokens of the whole step
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kRecompute,  ///< runs a forward part again, on kept inputs, to get what was not kept
  kZero,
  kCopy,        ///< y = x
  kAdd,         ///< y += x
  kInverse,     ///< y = 1 / x, or 0 when x is 0: the one scale site of the loss
  kNormSquare,  ///< y += sum of squares of x, in fp64
  kClip,        ///< clip coefficient and whether the update is applied (finite loss and norm)
  kOptStep,     ///< AdamW on one parameter range
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kSend,
  kRecv,
  kExchange,  ///< sends to one peer and receives from another, at once: a hop of a ring
};
inline constexpr int kNumOps = 20;

/// A piece of the model. ROPE = head split, q/k norm and rotation (GPT-2: the split alone); norms
/// include the addition of the residual branch before them. STAGE_IN and STAGE_OUT are the ends of
/// a pipeline stage: the residual stream that it takes and leaves, and their gradients.
enum class Part : std::uint8_t {
  kNone,
  kEmbed,
  kAttnNorm,
  kQkv,
  kRope,
  kAttn,
  kProj,
  kMlpNorm,
  kMlpUp,
  kAct,
  kMlpDown,
  kFinalNorm,
  kDropout,
  kHead,
  kLogits,
  kStageIn,
  kStageOut,    ///< y = x + delta: the last branch of the stage is added
  kRowBias,     ///< tensor parallelism: bias of a row-parallel product, added after the sum
  kPosition,    ///< tensor parallelism: learned positions, added after the sum
  kHeadLogits,  ///< of a chunk of tokens and this rank's vocabulary, with their maximum
  kHeadSums,    ///< of exponentials, and the label's logit
  kHeadLoss,    ///< loss of a chunk; in training also the gradients
  kRingKv,      ///< context parallelism: keys and values on their way round the ranks
  kRingDkv,     ///< and their gradients, one hop behind
};
inline constexpr int kNumParts = 24;

/// What an operand is to its instruction. Gradients bear a `d`.
enum class Role : std::uint8_t {
  kTokens,
  kLabels,
  kSamples,
  kX,
  kDelta,
  kH,
  kWeight,
  kBias,
  kWeight2,
  kY,
  kStats,
  kCos,
  kSin,
  kQNorm,
  kKNorm,
  kQ,
  kK,
  kV,
  kLse,
  kDy,
  kDx,
  kDh,
  kDWeight,
  kDBias,
  kDWeight2,
  kDq,
  kDk,
  kDv,
  kDQNorm,
  kDKNorm,
  kScale,
  kLoss,
  kLogits,
  kLength,
  kHyper,
  kCoefficient,
  kNormSquare,
  kParameter,
  kMoment1,
  kMoment2,
  kGradient,
  kData,
  kReceived,
  kShard,
  kRowMax,  ///< largest logit of each token
  kMaster,  ///< fp32 value of a bf16 parameter
  kSums,    ///< sum of exponentials of each token, then its label's logit, less the maximum
  kWorkspace,
};
inline constexpr int kNumRoles = 48;

enum class Access : std::uint8_t {
  kRead,
  kWrite,       ///< needs no old value
  kReadWrite,   ///< in place
  kAccumulate,  ///< adds to a defined value; the order of additions is part of the program
};

/// Instructions of one stream run in program order; streams of a rank run side by side.
enum class Stream : std::uint8_t {
  kCompute,
  kComm,     ///< over dp and cp, and between holders of a tied table or of DualPipe's copies
  kTensor,   ///< over tp
  kPipe,     ///< over pp: messages between stages, sums of scalars
  kContext,  ///< over cp: keys, values and their gradients
};
inline constexpr int kNumStreams = 5;

/// Where dropout is applied; part of the random counter.
enum class Site : std::uint8_t { kNone, kEmbed, kAttnProbs, kAttnResidual, kMlpResidual };

using BufferId = std::int32_t;

/// A byte range of a buffer, [offset, offset + bytes).
struct Range {
  BufferId buffer = -1;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const Range&) const = default;
};

struct Use {
  Role role{};
  Access access{};
  Range range;
  bool operator==(const Use&) const = default;
  [[nodiscard]] bool reads() const { return access != Access::kWrite; }
  [[nodiscard]] bool writes() const { return access != Access::kRead; }
};

/// "Not before instruction `instruction` of the call `calls_back` calls ago has completed on
/// `stream`." The waits of an instruction, which all calls of its template share, are within the
/// call (calls_back 0); those for earlier calls belong to the call.
struct Wait {
  Stream stream{};
  int calls_back = 0;
  int instruction = 0;
  bool operator==(const Wait&) const = default;
};

/// The communication side of an instruction; its data are the operands kData and kShard.
struct Comm {
  std::string group;          ///< communicator, see groups.h
  DType dtype = DType::kF32;  ///< in which the data travel
  std::int64_t elems = 0;     ///< of the full message, equal on all members
  int peer = -1;              ///< group rank, SEND, RECV and EXCHANGE (sends to it) only
  int source = -1;            ///< group rank that an EXCHANGE receives from
  int tag = 0;                ///< of a message of micro-batch 0; that of i is i more
  bool is_max = false;        ///< a reduction takes the maximum, not the sum
  bool operator==(const Comm&) const = default;
};

struct Instruction {
  Op op{};
  Part part = Part::kNone;
  int layer = -1;
  int stage = 0;
  /// Of the tokens, for the parts of a head whose vocabulary is sharded; of the keys, for ring
  /// attention: how many hops they have gone.
  int chunk = -1;
  Site site = Site::kNone;
  Stream stream = Stream::kCompute;
  int parameter = -1;  ///< row of the parameter table: NORM_SQ, OPT_STEP, sums of one gradient
  std::vector<Use> uses = {};
  std::vector<Wait> waits = {};      ///< within the call; derived by the events pass
  std::vector<BufferId> frees = {};  ///< transient buffers that end with this instruction; derived
  std::optional<Comm> comm = {};

  bool operator==(const Instruction&) const = default;
  /// The operand with this role, or nothing.
  [[nodiscard]] const Use* find(Role role) const;
  [[nodiscard]] Use* find(Role role);
  [[nodiscard]] bool has(Role role) const { return find(role) != nullptr; }
};

[[nodiscard]] std::string_view op_name(Op op);
[[nodiscard]] std::string_view part_name(Part part);
[[nodiscard]] std::string_view role_name(Role role);
[[nodiscard]] std::string_view access_name(Access access);  // "R", "W", "RW", "A"
[[nodiscard]] std::string_view stream_name(Stream stream);
[[nodiscard]] std::string_view site_name(Site site);
[[nodiscard]] std::optional<Op> parse_op(std::string_view name);
[[nodiscard]] std::optional<Part> parse_part(std::string_view name);
[[nodiscard]] std::optional<Role> parse_role(std::string_view name);
[[nodiscard]] std::optional<Access> parse_access(std::string_view name);
[[nodiscard]] std::optional<Stream> parse_stream(std::string_view name);
[[nodiscard]] std::optional<Site> parse_site(std::string_view name);

/// FWD or RECOMP.
[[nodiscard]] constexpr bool is_forward(Op op) {
  return op == Op::kForward || op == Op::kRecompute;
}
/// BWD, BWD_I or BWD_W.
[[nodiscard]] constexpr bool is_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}
/// SEND or EXCHANGE; RECV or EXCHANGE.
[[nodiscard]] constexpr bool sends(Op op) {
  return op == Op::kSend || op == Op::kExchange;
}
[[nodiscard]] constexpr bool receives(Op op) {
  return op == Op::kRecv || op == Op::kExchange;
}
/// The group rank that a RECV or EXCHANGE receives from.
[[nodiscard]] inline int source_of(const Instruction& instruction) {
  return instruction.op == Op::kExchange ? instruction.comm->source : instruction.comm->peer;
}
[[nodiscard]] constexpr bool is_linear(Part part) {
  return part == Part::kQkv || part == Part::kProj || part == Part::kMlpUp ||
         part == Part::kMlpDown;
}
/// Of a head with a loss that is cut over its vocabulary.
[[nodiscard]] constexpr bool is_head_shard(Part part) {
  return part == Part::kHeadLogits || part == Part::kHeadSums || part == Part::kHeadLoss;
}
/// Of a head with a loss, whole or cut.
[[nodiscard]] constexpr bool is_head(Part part) {
  return part == Part::kHead || is_head_shard(part);
}
/// What travels round the context-parallel ranks.
[[nodiscard]] constexpr bool is_ring(Part part) {
  return part == Part::kRingKv || part == Part::kRingDkv;
}
/// The ends of a pipeline stage.
[[nodiscard]] constexpr bool is_stage_edge(Part part) {
  return part == Part::kStageIn || part == Part::kStageOut;
}
[[nodiscard]] constexpr bool is_norm(Part part) {
  return part == Part::kAttnNorm || part == Part::kMlpNorm || part == Part::kFinalNorm;
}

}  // namespace trireme
