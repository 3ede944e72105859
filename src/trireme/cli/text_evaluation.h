// The loss of a model over a text. Private to the layer.
#pragma once

#include <cstdint>

#include "trireme/cli/model_folder.h"
#include "trireme/data/batch.h"
#include "trireme/layout/layout.h"

namespace trireme {

struct EvaluationRequest {
  ModelFolder model;
  Layout layout;  ///< dp only
  Batch batch;    ///< seq and micro_batch count
  int threads_per_rank = 1;
  bool resets_affinity = false;
};

struct EvaluationResult {
  double loss = 0;          ///< nats per token
  std::int64_t tokens = 0;  ///< evaluated
};

/// Runs the evaluation program on dp thread ranks. Throws what the first failing rank threw.
[[nodiscard]] EvaluationResult evaluate_text(const EvaluationRequest& request,
                                             const EvalBatches& batches);

}  // namespace trireme
