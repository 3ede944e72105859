// Trace files for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <string>

#include "trireme/report/timeline.h"

namespace trireme {

/// A whole trace file in the JSON object format of the Trace Event Format: a process per rank, a
/// thread per stream, a complete event ("ph": "X", microseconds with three decimals) per event.
/// Strict JSON whatever the names hold.
[[nodiscard]] std::string chrome_trace_json(const Timeline& timeline);

}  // namespace trireme
