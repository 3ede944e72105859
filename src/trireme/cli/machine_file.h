// Measuring this machine into a cluster file, with progress. Private to the layer.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include "trireme/cli/session.h"
#include "trireme/cost/quantity_file.h"

namespace trireme {

/// Says what it measures and for how long, on `session`, and warns of a machine that is not quiet.
/// Nothing if `stop_signal` came (not 0).
[[nodiscard]] std::optional<QuantityFile> measure_this_machine(double minutes,
                                                               const std::atomic<int>& stop_signal,
                                                               const Session& session);

/// Replaces the file. ResourceError if it cannot be written.
void write_machine_file(const std::filesystem::path& path, const QuantityFile& file);

}  // namespace trireme
