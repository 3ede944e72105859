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
#include "trireme/train/tensor_source.h"

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
/// of its tensor-parallel share; of what ZeRO divides (state_shard) those of its shard.
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
  /// order; `world` has all of them, nullptr = a single rank. Rank 0 needs memory for the tensor
  /// and the part of one more rank, in fp32; the others for their own part.
  [[nodiscard]] std::vector<float> gather(const StateTensor& tensor, Communicator* world) const;

  /// This rank has elements of the tensor.
  [[nodiscard]] bool holds(const StateTensor& tensor) const {
    return program_.holds(static_cast<std::size_t>(tensor.row));
  }
  [[nodiscard]] int rank() const { return program_.request.rank; }

  /// True if every element of this rank's parameters is finite.
  [[nodiscard]] bool has_finite_parameters() const;

  /// Stores this rank's part of a full tensor in file layout. Of a parameter or master both are
  /// stored, the parameter rounded to its type.
  void store(const StateTensor& tensor, const std::vector<float>& values);
  /// The same from the tensor's namesake in a file, of which no other byte is read. Needs some
  /// 12 MiB, whatever the tensor's size. Errors as TensorSource.
  void load(const StateTensor& tensor, const ShardedReader& reader);

 private:
  /// A rectangle of a tensor whose elements lie together on this rank, row after row.
  struct Piece {
    Rectangle place;
    Range range = {};
  };
  /// What a rank has of a root in one buffer, and which elements of that are complete.
  struct HeldElems {
    RootPart part;
    Shard complete;
  };
  /// Writes the elements of a rectangle, row after row.
  using Fill = std::function<void(const Rectangle& part, std::span<float> out)>;

  [[nodiscard]] const Parameter& row(const StateTensor& tensor) const;
  [[nodiscard]] const ParameterView& view(const StateTensor& tensor) const;
  [[nodiscard]] MatrixShape shape_of(const StateTensor& tensor) const;
  /// Parameters, and their masters if they have such.
  [[nodiscard]] std::vector<StateKind> weight_kinds() const;
  /// kParameter for the master of a parameter that is its own.
  [[nodiscard]] StateKind held_as(StateKind kind) const;
  [[nodiscard]] HeldElems held_elems(StateKind kind, int root) const;
  [[nodiscard]] std::vector<Piece> pieces_of(const StateTensor& tensor) const;
  /// Stores what `fill` says for each part of at most kPartElems elements that this rank holds.
  void fill_pieces(const StateTensor& tensor, const Fill& fill);
  /// Copies elements of a buffer out of and into the arena, as fp32.
  void read(const Range& range, float* to) const;
  void write(const Range& range, const float* from);
  void write_part(const Piece& piece, const Rectangle& part, const float* values);
  /// Of all ranks that hold an element of the tensor, this one hands it over.
  [[nodiscard]] bool is_owner(const StateTensor& tensor, int rank) const;
  void send_pieces(const StateTensor& tensor, Communicator& world) const;
  void receive_pieces(const StateTensor& tensor, int rank, Communicator& world,
                      std::vector<float>& full) const;

  const Program& program_;
  RankExecutor& executor_;
  int program_index_;
  LocalModel model_;
  ParameterRoots roots_;
};

}  // namespace trireme
