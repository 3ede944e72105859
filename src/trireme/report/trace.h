// What happened when on which rank, and the trace file that shows it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// What a rank had of some things from a moment on, until its next sample of this name.
struct TraceSample {
  int rank = 0;
  std::string name = {};  ///< of the track: "memory (bytes)"
  double start_seconds = 0.0;
  std::vector<std::pair<std::string, double>> values = {};  ///< by name; tracks of the viewer

  bool operator==(const TraceSample&) const = default;
};

/// Events of one step or run, in any order. A stream without a name is called "stream N".
struct Timeline {
  std::string title = {};
  std::vector<std::string> stream_names = {};  ///< "compute", "communication"
  std::vector<TraceEvent> events = {};
  std::vector<TraceSample> samples = {};
};

[[nodiscard]] std::string stream_name(const Timeline& timeline, int stream);

/// End of the last event; 0 without events.
[[nodiscard]] double end_seconds(const Timeline& timeline);

/// A whole trace file for ui.perfetto.dev and chrome://tracing, in the JSON object format of the
/// Trace Event Format: a process per rank, a thread per stream, a complete event ("ph": "X",
/// microseconds with three decimals) per event, a counter event ("ph": "C") per sample. Strict JSON
/// whatever the names hold.
[[nodiscard]] std::string chrome_trace_json(const Timeline& timeline);

/// The timeline of a file that chrome_trace_json() wrote; `source` names it in messages. UsageError
/// for a text that is no such file. Samples are left out.
[[nodiscard]] Timeline parse_chrome_trace(std::string_view text, const std::string& source);

/// The same with what a picture cannot tell apart drawn as one: in a lane, neighbours of one
/// category and micro-batch with less than `least_gap_seconds` between them become one event, "F3",
/// "B3", or the category's name; a shorter "other" event becomes part of the one before it.
[[nodiscard]] Timeline joined_timeline(const Timeline& timeline, double least_gap_seconds);

}  // namespace trireme
