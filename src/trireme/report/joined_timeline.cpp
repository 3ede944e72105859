#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "trireme/report/trace.h"

namespace trireme {
namespace {

double end_of(const TraceEvent& event) {
  return event.start_seconds + event.duration_seconds;
}

std::string joined_name(const TraceEvent& event) {
  if (!event.micro_batch) return event.category;
  if (event.category == "forward") return fmt::format("F{}", *event.micro_batch);
  if (event.category == "backward") return fmt::format("B{}", *event.micro_batch);
  return fmt::format("{} {}", event.category, *event.micro_batch);
}

/// What is neither pass nor communication, too short to be seen beside what precedes it.
bool is_trifle(const TraceEvent& last, const TraceEvent& event, double least_seconds) {
  return event.category == "other" && event.duration_seconds < least_seconds &&
         std::tie(last.rank, last.stream) == std::tie(event.rank, event.stream);
}

bool is_alike(const TraceEvent& a, const TraceEvent& b) {
  return std::tie(a.rank, a.stream, a.category, a.micro_batch) ==
         std::tie(b.rank, b.stream, b.category, b.micro_batch);
}

}  // namespace

Timeline joined_timeline(const Timeline& timeline, double least_gap_seconds) {
  std::vector<TraceEvent> events = timeline.events;
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::tie(a.rank, a.stream, a.start_seconds) <
           std::tie(b.rank, b.stream, b.start_seconds);
  });
  Timeline joined{
      .title = timeline.title, .stream_names = timeline.stream_names, .samples = timeline.samples};
  for (const TraceEvent& event : events) {
    TraceEvent* const last = joined.events.empty() ? nullptr : &joined.events.back();
    const bool touches = last != nullptr && event.start_seconds - end_of(*last) < least_gap_seconds;
    const bool is_same = touches && is_alike(*last, event);
    if (!is_same && !(touches && is_trifle(*last, event, least_gap_seconds))) {
      joined.events.push_back(event);
      continue;
    }
    if (is_same) last->name = joined_name(event);
    last->duration_seconds = std::max(end_of(*last), end_of(event)) - last->start_seconds;
  }
  return joined;
}

}  // namespace trireme
