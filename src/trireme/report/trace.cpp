#include "trireme/report/trace.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/report/json_text.h"

namespace trireme {
namespace {

std::string metadata_event(std::string_view kind, int rank, int stream, const std::string& args) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", kind, rank,
                     stream, args);
}

/// Names of ranks and streams, and numbers that keep them in order.
std::vector<std::string> metadata_events(const Timeline& timeline) {
  std::set<int> ranks;
  std::set<std::pair<int, int>> streams;
  for (const TraceEvent& event : timeline.events) {
    ranks.insert(event.rank);
    streams.insert({event.rank, event.stream});
  }
  std::vector<std::string> events;
  for (const int rank : ranks) {
    events.push_back(
        metadata_event("process_name", rank, 0, fmt::format(R"("name":"rank {}")", rank)));
    events.push_back(
        metadata_event("process_sort_index", rank, 0, fmt::format(R"("sort_index":{})", rank)));
  }
  for (const auto& [rank, stream] : streams) {
    events.push_back(metadata_event("thread_name", rank, stream,
                                    "\"name\":" + json_text(stream_name(timeline, stream))));
    events.push_back(metadata_event("thread_sort_index", rank, stream,
                                    fmt::format(R"("sort_index":{})", stream)));
  }
  return events;
}

std::string complete_event(const TraceEvent& event) {
  constexpr double kMicroseconds = 1e6;
  const std::string args =
      event.micro_batch ? fmt::format(R"("micro_batch":{})", *event.micro_batch) : "";
  return fmt::format(
      R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
      json_text(event.name), json_text(event.category), event.rank, event.stream,
      event.start_seconds * kMicroseconds, event.duration_seconds * kMicroseconds, args);
}

std::string counter_event(const TraceSample& sample) {
  constexpr double kMicroseconds = 1e6;
  std::vector<std::string> args;
  for (const auto& [name, value] : sample.values)
    args.push_back(fmt::format("{}:{:.0f}", json_text(name), value));
  return fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{:.3f},"args":{{{}}}}})",
                     json_text(sample.name), sample.rank, sample.start_seconds * kMicroseconds,
                     fmt::join(args, ","));
}

}  // namespace

std::string stream_name(const Timeline& timeline, int stream) {
  const auto index = static_cast<std::size_t>(stream);
  return index < timeline.stream_names.size() ? timeline.stream_names[index]
                                              : fmt::format("stream {}", stream);
}

double end_seconds(const Timeline& timeline) {
  double end = 0.0;
  for (const TraceEvent& event : timeline.events) {
    end = std::max(end, event.start_seconds + event.duration_seconds);
  }
  return end;
}

std::string chrome_trace_json(const Timeline& timeline) {
  std::vector<std::string> events = metadata_events(timeline);
  for (const TraceEvent& event : timeline.events) {
    events.push_back(complete_event(event));
  }
  for (const TraceSample& sample : timeline.samples) events.push_back(counter_event(sample));
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"title\":{}}},\"traceEvents\":[\n{}\n]}}\n",
      json_text(timeline.title), fmt::join(events, ",\n"));
}

}  // namespace trireme
