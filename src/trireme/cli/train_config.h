// The config of a command line. Private to the layer.
#pragma once

#include <string>
#include <vector>

#include "trireme/train/config_file.h"

namespace trireme {

struct ConfigArguments {
  std::string path;
  const std::vector<ConfigOverride>& overrides;
  std::string layout;  ///< layout text; wins over file and overrides; empty = none
};

/// The checked config: defaults, model file or checkpoint, config file, overrides, layout text.
/// model.checkpoint may name a run's folder; the config holds the folder that was meant. Sizes that
/// are given beside it must be those of its config.json (dropout and max_seq may differ). Throws
/// UsageError as load_config and checked do, and for a model that no checkpoint could describe.
[[nodiscard]] TrainConfig train_config(const ConfigArguments& arguments);

}  // namespace trireme
