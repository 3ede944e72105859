// What trireme simulate says of a config on a calibrated machine. Private to the layer.
#pragma once

#include <string>

#include "trireme/plan/predict_table.h"
#include "trireme/train/config.h"

namespace trireme {

/// Seconds of a training step and bytes of each rank's arena, as text or as JSON. Throws UsageError
/// for a cluster file that was not calibrated.
[[nodiscard]] std::string program_price(const TrainConfig& config, const std::string& cluster,
                                        bool is_json);

/// A row of trireme predict as its programs would run on a calibrated machine, each rank with its
/// share of the cores. Fits if all arenas together do. Throws UsageError for what Trireme does not
/// train and for a cluster file that was not calibrated.
[[nodiscard]] Prediction program_prediction(const PricedCase& row, const Cluster& cluster,
                                            const Profile& profile);

}  // namespace trireme
