// Full tensors of a model that ranks hold in roots and shards: initial values, reading, writing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/checkpoint/safetensors.h"
#include "trireme/comm/communicator.h"
#include "trireme/execute/rank_executor.h"
#include "trireme/program/local_model.h"
#include "trireme/program/roots.h"

namespace trireme {

enum class StateKind : std::uint8_t {
  kParameter,  ///< as the step computes with it
  kMaster,     ///< fp32: what the optimizer updates; the parameter itself where that is fp32
  kMoment1,
  kMoment2,
  kGradient,
};

/// One tensor of a file: a Hugging-Face-named view of one kind of state.
struct StateTensor {
  std::string name;
  StateKind kind{};
  std::int64_t row = 0;  ///< of the parameter table
  std::size_t view = 0;  ///< of that row
};

/// The state of one rank, addressed by full tensors. Of each it has the elements of its stage and
/// of its tensor-parallel share; with ZeRO-1 moments, masters of
/// bf16 parameters, and gradients once reduced, are complete only
/// on the rank that owns the shard.
class ModelState {
 public:
  /// `executor` runs `program` as its program `program_index`; both outlive this object.
  ModelState(const Program& program, RankExecutor& executor, int program_index);

  [[nodiscard]] const ParameterTable& table() const { return model_.table(); }

  /// Fills parameters and masters with their initial values; moments are zero already.
  void initialize(std::uint64_t seed);

  /// One tensor per view of every row: name + suffix, shape as in a Hugging Face file.
  [[nodiscard]] std::vector<StateTensor> tensors(StateKind kind, std::string_view prefix,
                                                 std::string_view suffix) const;
  [[nodiscard]] TensorSpec spec_of(const StateTensor& tensor) const;

  /// The full tensor in file layout on rank 0 (empty elsewhere). All ranks call it in the same
  /// order; `world` has all of them, nullptr = a single rank.
  [[nodiscard]] std::vector<float> gather(const StateTensor& tensor, Communicator* world) const;

  /// This rank has elements of the tensor.
  [[nodiscard]] bool holds(const StateTensor& tensor) const {
    return program_.holds(static_cast<std::size_t>(tensor.row));
  }

  /// True if every element of this rank's parameters is finite.
  [[nodiscard]] bool has_finite_parameters() const;

  /// Stores this rank's part of a full tensor in file layout. Of a parameter or master both are
  /// stored, the parameter rounded to its type.
  void store(const StateTensor& tensor, const std::vector<float>& values);

 private:
  [[nodiscard]] const Parameter& row(const StateTensor& tensor) const;
  [[nodiscard]] const ParameterView& view(const StateTensor& tensor) const;
  /// Parameters, and their masters if they have such.
  [[nodiscard]] std::vector<StateKind> weight_kinds() const;
  /// kParameter for the master of a parameter that is its own.
  [[nodiscard]] StateKind held_as(StateKind kind) const;
  [[nodiscard]] bool is_sharded(StateKind kind) const;
  [[nodiscard]] std::int64_t num_elems(const StateTensor& tensor) const;
  /// Consecutive elements of the full tensor that lie together on this rank.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    Range range = {};
  };
  [[nodiscard]] std::vector<Run> runs_of(const StateTensor& tensor) const;
  /// Copies elements of a buffer out of and into the arena, as fp32.
  void read(const Run& run, float* to) const;
  void write(const Run& run, const float* from);
  /// Of all ranks that hold an element of the tensor, this one hands it over.
  [[nodiscard]] bool is_owner(const StateTensor& tensor, int rank) const;
  void send_runs(const StateTensor& tensor, Communicator& world) const;
  void receive_runs(int rank, Communicator& world, std::vector<float>& full) const;

  const Program& program_;
  RankExecutor& executor_;
  int program_index_;
  LocalModel model_;
  ParameterRoots roots_;
};

/// Reads tensor `name` as fp32; F32 and BF16 files are accepted. ResourceError if it is missing or
/// its shape differs from `shape`, naming both.
[[nodiscard]] std::vector<float> read_tensor(const ShardedReader& reader, const std::string& name,
                                             const std::vector<std::int64_t>& shape);

}  // namespace trireme
