// Builds programs: model × layout × batch → instruction lists, one per rank, for verify() to check.
#pragma once

#include <optional>

#include "trireme/program/program.h"
#include "trireme/program/roots.h"

namespace trireme {

/// The training step of `request.rank`.
[[nodiscard]] Program build_train(const BuildRequest& request);

/// Evaluation of `num_micro_batches` micro-batches on `request.rank`, with parameters at the places
/// of `roots`, those of the program that trains them; else all in one.
[[nodiscard]] Program build_eval(const BuildRequest& request, int num_micro_batches,
                                 const std::optional<ParameterRoots>& roots = std::nullopt);

/// Generation: `prefill` runs a prompt of up to max_seq tokens and fills the key/value caches,
/// `decode` one token more. Both end with the logits of the last token on every rank of the last
/// stage. A rank caches the layers that it computes, of its own heads. Without sequence
/// parallelism.
[[nodiscard]] Program build_prefill(const BuildRequest& request);
[[nodiscard]] Program build_decode(const BuildRequest& request);

/// Sets the size of the compute stream's workspace, which only the backend's kernels know.
void set_workspace_bytes(Program& program, std::int64_t bytes);

/// Doubles of the buffer "hyper" (host input of each step).
struct HyperLayout {
  static constexpr int kLr = 0, kBeta1 = 1, kBeta2 = 2, kEps = 3, kWeightDecay = 4,
                       kCorrection1 = 5, kCorrection2 = 6, kMaxNorm = 7, kCount = 8;
};
/// Floats of the buffer "coef", written by CLIP.
struct CoefficientLayout {
  static constexpr int kScale = 0;  ///< factor on the gradient
  static constexpr int kApply =
      1;                           ///< 1 if loss and norm are finite, else 0: the update is skipped
  static constexpr int kNorm = 2;  ///< gradient norm before clipping
  static constexpr int kCount = 4;
};

}  // namespace trireme
