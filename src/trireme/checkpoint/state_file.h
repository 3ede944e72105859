// state.json, the last file of a checkpoint to be written. Private to the layer.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "trireme/checkpoint/store.h"

namespace trireme {

inline constexpr const char* kStateFile = "state.json";

/// Throws UsageError unless state.trainer_json is a JSON object.
[[nodiscard]] std::string encode_state(const CheckpointState& state,
                                       const std::map<std::string, FileDigest>& files);

/// Reads dir/state.json and checks its types and the existence and size, not the content, of each
/// file it names. Throws ResourceError naming what is wrong.
[[nodiscard]] Checkpoint read_state(const std::filesystem::path& dir);

}  // namespace trireme
