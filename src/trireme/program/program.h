// A program: buffers, micro-batch templates and the order in which they are called, for one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trireme/layout/layout.h"
#include "trireme/model/parameters.h"
#include "trireme/model/spec.h"
#include "trireme/program/instruction.h"

namespace trireme {

/// The rows of every memory table (contract: `bytes` of a rank).
enum class MemoryKind : std::uint8_t {
  kParameters,
  kMaster,
  kMoments,
  kGradients,
  kPacked,
  kActivations,
  kCommunication,
  kWorkspace,
};
inline constexpr int kNumMemoryKinds = 8;
[[nodiscard]] std::string_view memory_kind_name(MemoryKind kind);

/// What belongs to the optimizer alone, and ZeRO-1 shards.
[[nodiscard]] constexpr bool is_optimizer_state(MemoryKind kind) {
  return kind == MemoryKind::kMoments || kind == MemoryKind::kMaster;
}

/// Where the content of a buffer comes from.
enum class Content : std::uint8_t {
  kState,      ///< carried from step to step: parameters, moments, key/value caches
  kConstant,   ///< filled once at load: rotation tables
  kInput,      ///< filled by the host before each step: learning rate, cache length
  kStep,       ///< undefined at the start of each step, with memory of its own: gradients, scalars
  kTransient,  ///< undefined until its first write, memory shared by lifetime
  kFramed,  ///< of one micro-batch, kept from one call to another: one copy per frame of its pool
};

struct Buffer {
  std::string name;  ///< unique within the program; no spaces, commas, brackets or '|'
  MemoryKind kind{};
  Content content{};
  DType dtype = DType::kF32;
  std::int64_t bytes = 0;
  int pool = -1;  ///< of content kFramed
  bool operator==(const Buffer&) const = default;
};

/// A straight run of instructions, called once or more in a step.
struct Template {
  std::string name;
  std::vector<Instruction> instructions;
  bool operator==(const Template&) const = default;
};

/// Memory for micro-batches in flight: `num_frames` copies of all buffers of the pool.
struct FramePool {
  std::string name;
  int num_frames = 1;
  bool operator==(const FramePool&) const = default;
};

/// The frame of a pool that a call works on.
struct CallFrame {
  int pool = 0;
  int frame = 0;
  bool operator==(const CallFrame&) const = default;
};

/// What one instruction of a call waits for in an earlier call.
struct CallWait {
  int instruction = 0;
  Wait wait;
  bool operator==(const CallWait&) const = default;
};

struct Call {
  int template_index = 0;
  int micro_batch = -1;                ///< -1: not part of a micro-batch
  std::vector<CallFrame> frames = {};  ///< one per pool that the template uses
  std::vector<CallWait> waits = {};    ///< derived by the events pass
  bool operator==(const Call&) const = default;
  /// 0 for a buffer without a pool (-1) and for a pool that the call does not name.
  [[nodiscard]] int frame_of(int pool) const;
};

/// Where this rank's part of a row of the parameter table lives.
struct ParameterSlot {
  Range parameter = {};  ///< empty (buffer -1) when another stage holds the row
  Range gradient = {};   ///< empty (buffer -1) when the kind has no gradients
  std::optional<Range> head_gradient =
      {};  ///< of a tied table: its gradient as head, added once per step
  bool operator==(const ParameterSlot&) const = default;
};

enum class ProgramKind : std::uint8_t { kTrain, kEval, kPrefill, kDecode };
[[nodiscard]] std::string_view program_kind_name(ProgramKind kind);
/// Training and evaluation; generation ends with logits.
[[nodiscard]] constexpr bool has_loss(ProgramKind kind) {
  return kind == ProgramKind::kTrain || kind == ProgramKind::kEval;
}

/// What a program is built from.
struct BuildRequest {
  ModelSpec spec;  ///< resolved
  Layout layout;   ///< checked
  Batch batch;     ///< checked
  int rank = 0;
  bool decay_norms = false;
  /// Of parameters, activations and their gradients: kF32, or kBf16 with an fp32 master of each
  /// trainable parameter. Gradients of parameters and moments are fp32.
  DType compute = DType::kF32;
  /// In which gradients travel when they are summed over dp: kF32 or kBf16.
  DType reduce = DType::kF32;
  bool operator==(const BuildRequest&) const = default;
  [[nodiscard]] bool has_master() const { return compute != DType::kF32; }
};

/// Buffers by name. Follows from the buffers, so that all indices are equal.
class BufferIndex {
 public:
  void add(std::string name, BufferId id) { ids_.emplace(std::move(name), id); }
  [[nodiscard]] std::optional<BufferId> find(std::string_view name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  bool operator==(const BufferIndex& /*other*/) const { return true; }

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };
  std::unordered_map<std::string, BufferId, Hash, std::equal_to<>> ids_;
};

struct Program {
  ProgramKind kind{};
  BuildRequest request;
  int num_micro_batches = 0;
  std::vector<FramePool> pools = {};
  std::vector<Buffer> buffers;  ///< changed in number and name by the functions below alone
  std::vector<ParameterSlot> parameters;  ///< one per row of the parameter table
  std::vector<Template> templates;
  std::vector<Call> calls;
  BufferIndex buffer_index = {};

  bool operator==(const Program&) const = default;
  [[nodiscard]] const Buffer& buffer(BufferId id) const {
    return buffers.at(static_cast<std::size_t>(id));
  }
  [[nodiscard]] std::optional<BufferId> find_buffer(std::string_view name) const;
  BufferId add_buffer(Buffer buffer);
  void set_buffers(std::vector<Buffer> all);
  [[nodiscard]] Range whole(BufferId id) const { return {id, 0, buffer(id).bytes}; }
  [[nodiscard]] bool holds(std::size_t row) const { return parameters[row].parameter.buffer >= 0; }
  [[nodiscard]] std::optional<int> find_template(std::string_view name) const;
  /// Index of the template, added at the end (with no call) if there is none of this name.
  int template_index(std::string_view name);
  Template& at(int index) { return templates.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] const Template& at(int index) const {
    return templates.at(static_cast<std::size_t>(index));
  }
  /// Instructions of one step: the sum over the calls.
  [[nodiscard]] std::int64_t num_instructions() const;
};

/// Elements in a range of one of the program's buffers; 0 for a range without a buffer.
[[nodiscard]] std::int64_t num_elems(const Program& program, const Range& range);

/// Calls `visit(call, call_index, instruction, instruction_index)` for one step in program order.
template <typename Visit>
void for_each_instruction(const Program& program, Visit visit) {
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const Call& call = program.calls[c];
    const auto& instructions = program.at(call.template_index).instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      visit(call, static_cast<int>(c), instructions[i], static_cast<int>(i));
    }
  }
}

/// Calls `visit(wait)` for what an instruction of a call waits for, within the call and before it.
template <typename Visit>
void for_each_wait(const Call& call, const Instruction& instruction, int index, Visit visit) {
  for (const Wait& wait : instruction.waits) visit(wait);
  for (const CallWait& of_call : call.waits) {
    if (of_call.instruction == index) visit(of_call.wait);
  }
}

/// Tag of a message in a call: equal on both ends, different for any two that could be confused.
[[nodiscard]] int message_tag(const Call& call, const Comm& comm);

/// Position in the step of each call's first instruction, then the number of all.
[[nodiscard]] std::vector<int> call_bases(const Program& program);

}  // namespace trireme
