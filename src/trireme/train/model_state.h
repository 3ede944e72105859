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
#include "trireme/model/parameters.h"
#include "trireme/program/roots.h"

namespace trireme {

enum class StateKind : std::uint8_t { kParameter, kMoment1, kMoment2, kGradient };

/// One tensor of a file: a Hugging-Face-named view of one kind of state.
struct StateTensor {
  std::string name;
  StateKind kind{};
  std::int64_t row = 0;  ///< of the parameter table
  std::size_t view = 0;  ///< of that row
};

/// The state of one rank, addressed by full tensors. With ZeRO-1 moments, and gradients once
/// reduced, are complete only on the rank that owns the shard.
class ModelState {
 public:
  /// `executor` runs `program` as its program `program_index`; both outlive this object.
  ModelState(const Program& program, RankExecutor& executor, int program_index);

  [[nodiscard]] const ParameterTable& table() const { return table_; }

  /// Fills the parameters with their initial values; moments are zero already.
  void initialize(std::uint64_t seed);

  /// One tensor per view of every row: name + suffix, shape as in a Hugging Face file.
  [[nodiscard]] std::vector<StateTensor> tensors(StateKind kind, std::string_view prefix,
                                                 std::string_view suffix) const;
  [[nodiscard]] TensorSpec spec_of(const StateTensor& tensor) const;

  /// The full tensor in file layout on group rank 0 (empty elsewhere). All ranks of `group` call it
  /// in the same order; nullptr = a single rank.
  [[nodiscard]] std::vector<float> gather(const StateTensor& tensor, Communicator* group) const;

  /// True if every element of this rank's parameters is finite.
  [[nodiscard]] bool has_finite_parameters() const;

  /// Stores this rank's part of a full tensor in file layout.
  void store(const StateTensor& tensor, const std::vector<float>& values);

 private:
  [[nodiscard]] const Parameter& row(const StateTensor& tensor) const;
  [[nodiscard]] const ParameterView& view(const StateTensor& tensor) const;
  [[nodiscard]] bool is_sharded(StateKind kind) const;
  /// Bytes of the tensor's elements within its root; `buffer` is the number of the root.
  [[nodiscard]] Range full_range(const StateTensor& tensor) const;
  struct Piece {
    std::int64_t begin = 0;  ///< element of the tensor
    std::int64_t num_elems = 0;
    std::span<float> values = {};  ///< empty unless it is this rank's
  };
  /// What rank `rank` of the group owns of a tensor.
  [[nodiscard]] Piece piece_of(const StateTensor& tensor, int rank) const;

  const Program& program_;
  RankExecutor& executor_;
  int program_index_;
  ParameterTable table_;
  ParameterRoots roots_;
  int dp_;
  int dp_rank_;
};

/// Reads tensor `name` as fp32; F32 and BF16 files are accepted. ResourceError if it is missing or
/// its shape differs from `shape`, naming both.
[[nodiscard]] std::vector<float> read_tensor(const ShardedReader& reader, const std::string& name,
                                             const std::vector<std::int64_t>& shape);

}  // namespace trireme
