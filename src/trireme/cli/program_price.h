// What trireme simulate says of a config on a calibrated machine. Private to the layer.
#pragma once

#include <string>

#include "trireme/train/config.h"

namespace trireme {

/// Seconds of a training step and bytes of each rank's arena, as text or as JSON. Throws UsageError
/// for a cluster file that was not calibrated.
[[nodiscard]] std::string program_price(const TrainConfig& config, const std::string& cluster,
                                        bool is_json);

}  // namespace trireme
