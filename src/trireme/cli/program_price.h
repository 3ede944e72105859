// The step that trireme simulate is asked about. Private to the layer.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/cli/step_report.h"
#include "trireme/plan/predict_table.h"
#include "trireme/train/config.h"

namespace trireme {

/// The step of a run on a calibrated machine, whose cores its ranks share, or on a published
/// cluster. Throws UsageError for what is neither and for a layout that the trainer would refuse.
[[nodiscard]] StepReport program_report(const TrainConfig& config, const std::string& cluster_name);

/// A step that no config file describes.
struct ModelStep {
  std::string model;  ///< name or models/*.toml
  std::string layout;
  std::int64_t global_batch = 0;
  std::int64_t seq = 0;
  std::string precision = "bf16";
};

/// The same for a model. Throws UsageError also for a model that Trireme does not train.
[[nodiscard]] StepReport model_report(const ModelStep& step, const std::string& cluster_name);

/// A row of trireme predict as its programs would run on a calibrated machine, each rank with its
/// share of the cores. Fits if all arenas together do. Throws UsageError for what Trireme does not
/// train and for a cluster file that was not calibrated.
[[nodiscard]] Prediction program_prediction(const PricedCase& row, const Cluster& cluster,
                                            const Profile& profile);

}  // namespace trireme
