// What one rank holds of the model: its stages, its share of their parameters, and what it owes
// others for them.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/layout/tp_shard.h"
#include "trireme/model/parameters.h"
#include "trireme/program/pipeline.h"
#include "trireme/program/program.h"

namespace trireme {

/// One rank's view of the model. Cheap to ask, not to make: it holds the schedule.
class LocalModel {
 public:
  /// Throws UsageError as Pipeline does.
  LocalModel(const BuildRequest& request, ProgramKind kind, int num_micro_batches);
  explicit LocalModel(const Program& program)
      : LocalModel(program.request, program.kind, program.num_micro_batches) {}

  /// Sizes as the kernels of this rank see them.
  [[nodiscard]] const ModelSpec& spec() const { return local_spec_; }
  /// Of the whole model.
  [[nodiscard]] const ParameterTable& table() const { return table_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  /// Of this rank.
  [[nodiscard]] const MeshCoord& coord() const { return coord_; }
  /// Whose parameters the rank holds, ascending.
  [[nodiscard]] const std::vector<int>& stages() const { return pipeline_.stages_of(coord_.pp); }
  /// Those that the rank computes for some micro-batch: all, but in DualPipe's evaluation.
  [[nodiscard]] std::vector<int> computed_stages() const;
  [[nodiscard]] bool holds_stage(int stage) const { return pipeline_.holds(coord_.pp, stage); }
  [[nodiscard]] const Parameter& row(std::size_t number) const { return table_.rows()[number]; }

  /// Stages that use a row of the table: one, or first and last for a tied table.
  [[nodiscard]] std::vector<int> stages_of_row(std::size_t row) const;
  /// One of the rank's stages uses the row.
  [[nodiscard]] bool holds(std::size_t row) const;
  /// The elements of the row that a rank with this tp coordinate holds.
  [[nodiscard]] ParameterShard shard(std::size_t row) const;
  /// First row of the vocabulary that this rank holds.
  [[nodiscard]] std::int64_t first_vocab_row() const;

  /// In training and evaluation; generation decodes one token at a time.
  [[nodiscard]] bool is_sequence_parallel() const { return is_sequence_parallel_; }
  /// Ranks over which a sequence is cut; 1 in generation.
  [[nodiscard]] int num_cp_ranks() const { return num_cp_ranks_; }
  /// Their keys and values go round from rank to rank.
  [[nodiscard]] bool has_ring() const {
    return num_cp_ranks_ > 1 && layout_.cp_comm == CpComm::kRing;
  }

  /// First and last stage hold a copy each of the tied table, on different ranks.
  [[nodiscard]] bool is_tied_across() const { return is_tied_across_; }
  /// Communicators over which the gradient of a row is summed beside dp.
  [[nodiscard]] std::vector<std::string_view> gradient_groups(std::size_t row) const;
  /// Some rows are reduced at once.
  [[nodiscard]] bool shards_gradients() const { return shards_gradients_; }
  /// ZeRO-2 and 3: each micro-batch's gradient of the row is reduced into this rank's shard at
  /// once. Tied tables wait for the end of the step: their two gradients are added once.
  [[nodiscard]] bool is_reduced_at_once(std::size_t row) const;
  /// Of the ranks that hold the same elements, this one adds them to the gradient norm (other dp
  /// ranks not considered).
  [[nodiscard]] bool counts_in_norm(std::size_t row) const;

 private:
  Layout layout_;
  ModelSpec spec_;
  ParameterTable table_;
  Pipeline pipeline_;
  MeshCoord coord_;
  ModelSpec local_spec_;
  bool is_sequence_parallel_ = false;
  bool shards_gradients_ = false;
  int num_cp_ranks_ = 1;
  bool is_tied_across_ = false;
};

}  // namespace trireme
