// What a training run will do, as text and as JSON. Private to the layer.
#pragma once

#include <string>
#include <string_view>

#include "trireme/train/trainer.h"

namespace trireme {

struct RunSummary {
  const TrainConfig& config;
  const TrainData& data;
  const RunPlan& plan;
  const Launch& launch;
};

/// Model, data, batch, layout, memory of each rank, and the rules that were checked.
[[nodiscard]] std::string summary_text(const RunSummary& summary);

/// The object of `train --dry-run --json`.
[[nodiscard]] std::string summary_json(const RunSummary& summary);

}  // namespace trireme
