// Tests only: runs training steps of any layout on thread ranks, without files, and collects full
// tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/execute/backend.h"
#include "trireme/execute/program_traffic.h"
#include "trireme/train/model_state.h"

namespace trireme {

/// Grouped heads and no two sizes alike: hidden 24, 6 query and 2 key/value heads of 4,
/// vocabulary 31.
[[nodiscard]] ModelSpec small_llama();

using NamedTensors = std::map<std::string, std::vector<float>>;

struct HarnessOptions {
  int steps = 1;
  std::uint64_t seed = 7;
  double lr = 1e-3;
  double max_norm = 0.1;
  double weight_decay = 0.1;
  int threads = 1;
  /// Tokens and labels [T] of a global sample; nothing = pseudo-random, and every fifth sample half
  /// masked.
  std::function<void(std::int64_t sample, std::span<std::int32_t> tokens,
                     std::span<std::int32_t> labels)>
      sample = {};
  /// Called on every rank once its state exists; nothing = initial values from the seed.
  std::function<void(ModelState&)> fill = {};
  /// Changes the verified training program of every rank; for showing what the verifier prevents.
  std::function<void(Program&)> mutate = {};
  /// Called on every rank right before (true) and right after (false) a step runs.
  std::function<void(int step, bool begins)> on_run = {};
  /// Steps that a checkpoint loaded by `fill` has done: the first one here is the next.
  int first_step = 0;
  /// Run folder for a checkpoint once `checkpoint_step` steps are done; empty = none.
  std::filesystem::path checkpoint = {};
  int checkpoint_step = 0;
  /// Evaluates after each of these many steps; 0 = never.
  int eval_every = 0;
  /// As BuildRequest's.
  DType compute = DType::kF32;
  DType reduce = DType::kF32;
};

struct HarnessResult {
  std::vector<double> losses;      ///< per step, per valid token
  std::vector<double> grad_norms;  ///< before clipping
  std::vector<double> eval_losses;
  NamedTensors first_gradients;               ///< of step 1, reduced and unclipped, file layout
  NamedTensors weights;                       ///< after the last step
  NamedTensors moments;                       ///< NAME.m and NAME.v
  std::vector<GroupBytes> bytes_sent;         ///< by rank, all steps and evaluations
  std::vector<GroupBytes> predicted_sent;     ///< the same, in closed form
  std::vector<std::int64_t> planned_bytes;    ///< arena, by rank
  std::vector<std::int64_t> allocated_bytes;  ///< arena, by rank
};

/// Builds, verifies, places and runs. `layout` and `batch` as in a config.
[[nodiscard]] HarnessResult run_steps(const ModelSpec& spec, const Layout& layout,
                                      const Batch& batch, const HarnessOptions& options = {});

/// Name of the first tensor that differs in any bit or is missing; empty if none.
[[nodiscard]] std::string first_difference(const NamedTensors& a, const NamedTensors& b);

/// Expects losses, norms, first gradients, weights and moments to be alike in every
/// bit.
void expect_equal_bits(const HarnessResult& run, const HarnessResult& due);

/// GPT-2's key biases have no gradient but rounding (softmax ignores a constant), which AdamW turns
/// into steps.
[[nodiscard]] NamedTensors without_key_bias(NamedTensors tensors);

/// Largest error / max(largest element of the tensor, 1e-3 * largest element of all tensors), and
/// its tensor.
struct TensorError {
  double error = 0;
  std::string name;
};
[[nodiscard]] TensorError largest_error(const NamedTensors& value, const NamedTensors& reference);

/// Largest difference of two elements, and its tensor.
[[nodiscard]] TensorError largest_change(const NamedTensors& value, const NamedTensors& reference);

}  // namespace trireme
