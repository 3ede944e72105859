// The config of a command line. Private to the layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/train/config_file.h"

namespace trireme {

inline constexpr std::string_view kAutoLayout = "auto";

struct ConfigArguments {
  std::string path;
  const std::vector<ConfigOverride>& overrides;
  /// Layout text, which wins over file and overrides; empty = none. kAutoLayout: one rank and one
  /// sequence at a time, until a layout has been planned; of [layout] bucket_mib, cp_comm and what
  /// says how ranks run is kept, of [batch] a micro_batch of the overrides.
  std::string layout;
};

/// Whether the command line says so itself.
[[nodiscard]] bool is_given(const std::vector<ConfigOverride>& overrides, std::string_view name);

/// The checked config: defaults, model file or checkpoint, config file, overrides, layout text.
/// model.checkpoint may name a run's folder; the config holds the folder that was meant. Sizes that
/// are given beside it must be those of its config.json (dropout and max_seq may differ). Throws
/// UsageError as load_config and checked do, and for a model that no checkpoint could describe.
[[nodiscard]] TrainConfig train_config(const ConfigArguments& arguments);

}  // namespace trireme
