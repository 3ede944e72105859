// What happened when on which rank, and the trace file that shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// One thing that a stream of a rank did.
struct TraceEvent {
  int rank = 0;
  int stream = 0;              ///< index into Timeline::stream_names
  std::string name = {};       ///< "F3 layers.0"
  std::string category = {};   ///< "forward", "backward", "communication", ...: decides the colour
  double start_seconds = 0.0;  ///< since the start of the timeline, >= 0
  double duration_seconds = 0.0;
  std::optional<int> micro_batch = {};

  bool operator==(const TraceEvent&) const = default;
};

/// Events of one step or run, in any order. A stream without a name is called "stream N".
struct Timeline {
  std::string title = {};
  std::vector<std::string> stream_names = {};  ///< "compute", "communication"
  std::vector<TraceEvent> events = {};
};

[[nodiscard]] std::string stream_name(const Timeline& timeline, int stream);

/// End of the last event; 0 without events.
[[nodiscard]] double end_seconds(const Timeline& timeline);

/// A whole trace file for ui.perfetto.dev and chrome://tracing, in the JSON object format of the
/// Trace Event Format: a process per rank, a thread per stream, a complete event ("ph": "X",
/// microseconds with three decimals) per event. Strict JSON whatever the names hold.
[[nodiscard]] std::string chrome_trace_json(const Timeline& timeline);

}  // namespace trireme
