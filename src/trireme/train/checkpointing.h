// Saving and resuming a run: what a checkpoint folder holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/checkpoint/store.h"
#include "trireme/comm/communicator.h"
#include "trireme/train/config.h"
#include "trireme/train/model_state.h"

namespace trireme {

/// Where a run stands after a step.
struct RunState {
  std::int64_t step = 0;         ///< steps done, skipped ones included
  std::int64_t updates = 0;      ///< optimizer updates done: AdamW's time
  std::int64_t skipped = 0;      ///< steps skipped as not finite
  std::int64_t tokens = 0;       ///< processed
  std::int64_t next_sample = 0;  ///< first global sample of the next step
  bool operator==(const RunState&) const = default;
};

/// The five things beside the state that bitwise equality depends on, the layout and the data.
struct Environment {
  std::string layout;
  std::string data;  ///< TrainData::identity
  int threads_per_rank = 1;
  std::string instruction_set;
  std::string library;
  bool operator==(const Environment&) const = default;
};

/// Bytes of the two tensor files that a save writes.
[[nodiscard]] std::int64_t checkpoint_bytes(const ModelState& state);

struct SaveRequest {
  const TrainConfig& config;
  const RunState& run;
  const Environment& environment;
};
/// Collective over `group` (nullptr: one rank): rank 0 writes model.safetensors (fp32, Hugging Face
/// names), optimizer.safetensors (NAME.master, NAME.m, NAME.v), config.json and state.json through
/// `store`, which is nullptr on the other ranks. Returns the folder on rank 0.
std::filesystem::path save_checkpoint(CheckpointStore* store, const ModelState& state,
                                      const SaveRequest& request, Communicator* group);

struct Resumed {
  RunState run;
  std::vector<std::string> notes;  ///< differences of options and environment; the config wins
  std::int64_t bytes_read = 0;     ///< of tensor files
};
/// Parameters, moments and run state of a verified checkpoint, whatever layout wrote it. A rank
/// reads what it holds: masters of its parameters, moments of its shard. Throws UsageError if the
/// model differs, ResourceError if the files do not hold what they must.
[[nodiscard]] Resumed resume_checkpoint(const Checkpoint& checkpoint, ModelState& state,
                                        const TrainConfig& config, const Environment& environment);

/// Parameters alone, from any folder with model.safetensors or its index. Throws ResourceError for
/// a tensor that is missing, has no place in the model, has another shape or is not finite.
void load_weights(const std::filesystem::path& folder, ModelState& state);

struct DumpRequest {
  std::filesystem::path dir;
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
};
/// Makes the folder. ResourceError naming it if that fails, so that no step is trained in vain.
void make_dump_folder(const std::filesystem::path& dir);

/// Collective: writes DIR/step_N.safetensors (grad.NAME reduced and unclipped, weight.NAME) and
/// DIR/step_N.json {step, loss, grad_norm} on rank 0. Call it right after the step.
void dump_step(const ModelState& state, const DumpRequest& request, Communicator* group);

}  // namespace trireme
