// The training loop: data, step, metrics, evaluation, checkpoints, on the ranks of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/data/batch.h"
#include "trireme/data/corpus.h"
#include "trireme/execute/program_traffic.h"
#include "trireme/execute/rank_executor.h"
#include "trireme/train/checkpointing.h"
#include "trireme/train/config.h"
#include "trireme/train/metrics.h"
#include "trireme/train/run_plan.h"

namespace trireme {

/// Text and windows of a checked config, shared by all ranks.
class TrainData {
 public:
  /// Reads the text. Throws UsageError as Corpus and WindowTable do.
  explicit TrainData(const TrainConfig& config);

  [[nodiscard]] const Corpus& corpus() const { return corpus_; }
  [[nodiscard]] const TrainBatches& train() const { return train_; }
  /// Nothing unless the run evaluates.
  [[nodiscard]] const std::optional<EvalBatches>& validation() const { return validation_; }
  /// Size and checksum of each file, for the notes of a resume. Reads the files.
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] std::int64_t eval_windows() const {
    return validation_ ? validation_->num_windows() : 0;
  }

 private:
  Corpus corpus_;
  TrainBatches train_;
  std::optional<EvalBatches> validation_;
};

/// Told what happens, in rank 0's thread: of other processes not at all.
class TrainObserver {
 public:
  TrainObserver() = default;
  TrainObserver(const TrainObserver&) = delete;
  TrainObserver& operator=(const TrainObserver&) = delete;
  virtual ~TrainObserver() = default;

  /// The state of every rank is in place: the first step is next.
  virtual void on_ready() {}
  /// `is_logging_step`: a multiple of run.log_every, or the last step.
  virtual void on_step(const StepMetrics& metrics, bool is_logging_step) = 0;
  virtual void on_eval(const EvalMetrics& metrics) = 0;
  virtual void on_checkpoint(const std::filesystem::path& folder) = 0;
  /// One line for people: what was resumed, what was skipped, a disk that is nearly full.
  virtual void on_note(std::string_view note) = 0;
};

struct TrainOptions {
  std::filesystem::path dump_dir = {};  ///< empty: no parity dumps
  std::vector<std::int64_t> dump_steps = {};
  const std::atomic<int>* stop_signal =
      nullptr;                   ///< number of the signal that asks for a stop; 0 = none
  bool resets_affinity = false;  ///< see run_on_any_core
  World* world = nullptr;        ///< of ranks that are processes; nullptr: threads of this one
};

/// Of the process that has rank 0; others know only `run`, `stop_signal` and `train_seconds`.
struct TrainResult {
  RunState run;
  std::optional<EvalMetrics> last_eval;
  int stop_signal = 0;                    ///< 128 + this is the exit code of a stopped run
  std::filesystem::path checkpoint;       ///< newest one of this run
  std::vector<std::int64_t> arena_bytes;  ///< as allocated, by rank
  /// By rank and group, by the programs of all steps of this call.
  std::vector<GroupBytes> bytes_sent;
  std::vector<StreamRecord> traces;  ///< of the steps of trace.steps; they refer to the plan
  double peak_flops = 0;             ///< of the whole world; as measured or configured
  double train_seconds = 0;
};

/// Folder of a run: run.dir/run.name.
[[nodiscard]] std::filesystem::path run_folder(const TrainConfig& config);

/// Trains until run.steps, or until the stop signal, and saves at the end. `plan` was made from
/// `config` and `data`. Writes metrics.jsonl and checkpoints/ into the run's folder, which exists.
/// Throws what the first failing rank threw, in a step "rank R, step S: " before it, or PeerLost if
/// that was another process; ResourceError for a non-finite loss or norm with
/// on_nonfinite = "stop", naming step and rank; checkpoints saved before stay.
[[nodiscard]] TrainResult train(const TrainConfig& config, const RunPlan& plan,
                                const TrainData& data, TrainObserver& observer,
                                const TrainOptions& options = {});

}  // namespace trireme
