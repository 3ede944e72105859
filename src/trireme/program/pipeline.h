// How a model is cut into stages, and which rank of the pipeline computes what when.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/layout/layout.h"
#include "trireme/program/schedules/messages.h"
#include "trireme/program/schedules/schedule.h"

namespace trireme {

/// Layers [begin, end); the first stage also has the embedding, the last one final norm and head.
struct StageLayers {
  int begin = 0;
  int end = 0;
  bool operator==(const StageLayers&) const = default;
};

/// layout.schedule is the path of a file, no schedule's name: it has a "/" or ends in ".csv".
[[nodiscard]] bool is_schedule_file(std::string_view schedule);

/// The pipeline of a layout. With pp = 1: one stage, the backward of each micro-batch right after
/// its forward ("none"), whatever layout.schedule is.
class Pipeline {
 public:
  /// Training: the orders of layout.schedule, by name or from its file. `num_micro_batches` >= 1.
  /// Throws UsageError naming field, values, rule and remedy for an unknown schedule, for a number
  /// of chunks or micro-batches that it does not have, for stages that do not cover the layers, for
  /// more stages than layers, for a reduction per micro-batch where backward passes are in halves,
  /// and for a file that cannot be read, whose ranks or micro-batches are
  /// others, or whose ranks wait for each other.
  Pipeline(const ModelSpec& spec, const Layout& layout, int num_micro_batches);

  /// Evaluation: forwards alone, on the same stages, for any number of micro-batches. Micro-batches
  /// pass through the chunks of a rank in groups of pp. Of a bidirectional schedule one direction
  /// is left: stage s on rank s. Throws as the constructor does.
  [[nodiscard]] static Pipeline forward_only(const ModelSpec& spec, const Layout& layout,
                                             int num_micro_batches);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  [[nodiscard]] int num_stages() const { return static_cast<int>(stages_.size()); }
  [[nodiscard]] const StageLayers& stage(int number) const {
    return stages_.at(static_cast<std::size_t>(number));
  }
  [[nodiscard]] int stage_of_layer(int layer) const;
  [[nodiscard]] bool is_last(int stage) const { return stage == num_stages() - 1; }
  /// Stages whose parameters a rank of the pipeline holds, ascending.
  [[nodiscard]] const std::vector<int>& stages_of(int pp_rank) const {
    return stages_of_.at(static_cast<std::size_t>(pp_rank));
  }
  [[nodiscard]] bool holds(int pp_rank, int stage) const;
  /// The rank that computes a stage for a micro-batch.
  [[nodiscard]] int rank_of(int stage, int micro_batch) const {
    return messages_.rank_of(stage, micro_batch);
  }
  [[nodiscard]] const MessageTable& messages() const { return messages_; }
  /// The backward pass of a stage is one op, on one rank: not in two halves.
  [[nodiscard]] bool has_whole_backwards() const;
  /// Each stage is on two ranks, which are each other's mirror (DualPipe).
  [[nodiscard]] bool is_bidirectional() const { return is_bidirectional_; }

 private:
  /// The stages where `schedule` computes them.
  Pipeline(const ModelSpec& spec, const Layout& layout, Schedule schedule);

  std::vector<StageLayers> stages_;
  std::vector<std::vector<int>> stages_of_;  ///< by rank of the pipeline
  Schedule schedule_;
  MessageTable messages_;
  bool is_bidirectional_ = false;
};

/// Layers of each stage so that the most expensive stage costs least, at least one each. The cost
/// is the number of parameters in matrix products: of a layer qkv, proj, up and down, of the last
/// stage also the head; the embedding is a lookup and costs nothing. Other stages are as even as
/// can be, and what is left over goes to later ones, which keep fewer activations. InternalError
/// unless 1 <= num_stages <= layers.
[[nodiscard]] std::vector<std::int64_t> balanced_stages(const ModelSpec& spec, int num_stages);

}  // namespace trireme
