// Everything that a training run is told, as plain values. Keys of a config file bear these names.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/comm/launch.h"
#include "trireme/layout/layout.h"
#include "trireme/model/spec.h"
#include "trireme/train/lr_schedule.h"

namespace trireme {

/// What to do when a loss or gradient norm is not finite.
enum class OnNonfinite : std::uint8_t { kStop, kSkip };

/// Type in which the matrix products are computed, or in which gradients travel.
enum class Precision : std::uint8_t { kFp32, kBf16 };

struct RunConfig {
  std::string name = "run";  ///< the run's folder is dir/name
  std::string dir = "runs";
  std::int64_t seed = 0;
  std::int64_t steps = 0;  ///< required
  std::int64_t log_every = 10;
  std::int64_t eval_every = 0;   ///< 0 = never
  std::int64_t eval_tokens = 0;  ///< tokens per evaluation; 0 = the whole held-out part
  std::string sample = {};       ///< prompt continued after the last step; empty = none
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  double peak_gflops = 0.0;  ///< of one rank, for MFU; 0 = measured at start

  bool operator==(const RunConfig&) const = default;
};

struct ModelConfig {
  std::string file = {};  ///< models/*.toml; load_config merges it into `spec` and empties this
  std::string checkpoint = {};  ///< folder with the initial weights; empty = random ones
  ModelSpec spec = {};

  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  std::vector<std::string> text = {};  ///< plain text files; required
  double val_fraction = 0.05;          ///< share of the text that is held out for evaluation

  bool operator==(const DataConfig&) const = default;
};

/// Keys of `[layout]` that say how ranks run, not what they compute.
struct RanksConfig {
  Transport transport = Transport::kAuto;
  double timeout_s = 60.0;       ///< silence after which a process counts as lost
  int threads_per_rank = 0;      ///< 0 = cores / ranks, at least 1
  double link_latency_us = 0.0;  ///< added to each message between ranks; 0 = off
  double link_gb_per_s = 0.0;    ///< limit per message between ranks, in 10^9 bytes/s; 0 = off

  bool operator==(const RanksConfig&) const = default;
};

struct PrecisionConfig {
  Precision compute = Precision::kFp32;
  Precision reduce = Precision::kFp32;

  bool operator==(const PrecisionConfig&) const = default;
};

struct OptimizerConfig {
  double lr = 3e-4;  ///< peak
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms = false;
  double clip = 1.0;  ///< greatest global gradient norm; 0 = off

  bool operator==(const OptimizerConfig&) const = default;
};

struct LrConfig {
  LrShape shape = LrShape::kCosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  ///< see LrSchedule
  double min_lr = 0.0;

  bool operator==(const LrConfig&) const = default;
};

struct CheckpointConfig {
  std::int64_t every = 0;       ///< steps; 0 = only after the last step
  std::int64_t keep_last = 2;   ///< newest ones kept; 0 = all
  std::int64_t keep_every = 0;  ///< checkpoints at multiples of this are never deleted; 0 = none
  std::string resume = "auto";  ///< "auto", "never" or a checkpoint's folder

  bool operator==(const CheckpointConfig&) const = default;
};

struct TraceConfig {
  std::vector<std::int64_t> steps = {};  ///< steps to record

  bool operator==(const TraceConfig&) const = default;
};

/// A default-constructed one lacks the required values; `checked` refuses it.
struct TrainConfig {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  Batch batch{.seq = 0, .micro_batch = 1, .global_batch = 0};  ///< seq, global_batch: required
  Layout layout;
  RanksConfig ranks;
  PrecisionConfig precision;
  OptimizerConfig optimizer;
  LrConfig lr;
  CheckpointConfig checkpoint;
  TraceConfig trace;

  bool operator==(const TrainConfig&) const = default;
};

/// The config with its model resolved, if every field and all fields together are valid. Throws
/// UsageError for the first one that is not, naming field, value, rule and nearest valid value.
/// With model.checkpoint, fill in model.spec from the checkpoint before calling this.
[[nodiscard]] TrainConfig checked(TrainConfig config);

[[nodiscard]] LrSchedule lr_schedule(const TrainConfig& config);

/// Of a checked config, the lines "section.key = value" of all options that change what is learnt
/// (not where it runs, is logged or is saved). Equal texts mean the same training; a checkpoint
/// keeps this text.
[[nodiscard]] std::string training_text(const TrainConfig& config);

/// 16 hexadecimal digits: a hash of `training_text`.
[[nodiscard]] std::string config_hash(const TrainConfig& config);

}  // namespace trireme
