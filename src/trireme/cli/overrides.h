// `--section.key value` among the arguments of a command. Private to the layer.
#pragma once

#include <string>
#include <vector>

#include "trireme/train/config_file.h"

namespace trireme {

struct SplitArguments {
  std::vector<std::string> plain;  ///< all others, in their order
  std::vector<ConfigOverride> overrides;
};

/// Takes `--section.key value` and `--section.key=value` out of `arguments`, whatever follows them.
/// Throws UsageError for one without a value.
[[nodiscard]] SplitArguments split_overrides(const std::vector<std::string>& arguments);

}  // namespace trireme
