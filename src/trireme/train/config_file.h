// Config files (TOML) and command-line overrides.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/train/config.h"

namespace trireme {

/// `--section.key value` of a command line, without the dashes.
struct ConfigOverride {
  std::string name;   ///< "optimizer.lr"
  std::string value;  ///< as in TOML, but text is taken as it is; a list may be written a,b,c
};

/// Reads a config file, the model file that it names, and the overrides; later ones win: defaults,
/// model file, config file, overrides. Relative paths in the file are looked for in its folder,
/// then in the current one; those of overrides only in the current one. Not yet `checked`.
/// Throws UsageError with file:line:column for broken syntax, duplicate or unknown keys, wrong
/// types, invalid values and missing files.
[[nodiscard]] TrainConfig load_config(const std::filesystem::path& path,
                                      const std::vector<ConfigOverride>& overrides = {});

/// The same for text that does not come from a file; `name` stands in messages, and relative paths
/// start at `folder`.
[[nodiscard]] TrainConfig parse_config(std::string_view text, std::string_view name,
                                       const std::filesystem::path& folder,
                                       const std::vector<ConfigOverride>& overrides = {});

/// A whole config file: every option, in the order of the reference page. Reading it back from the
/// current folder gives an equal config.
[[nodiscard]] std::string config_toml(const TrainConfig& config);

}  // namespace trireme
