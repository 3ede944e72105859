#include "trireme/report/gantt.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace trireme {
namespace {

/// Columns in which every event has room for its name and a blank, as far as `max_columns` allows.
int num_columns(const Timeline& timeline, int max_columns) {
  double columns = 1;
  const double end = end_seconds(timeline);
  for (const TraceEvent& event : timeline.events) {
    if (event.duration_seconds <= 0) continue;
    const auto needed = static_cast<double>(event.name.size() + 1);
    columns = std::max(columns, needed * end / event.duration_seconds);
  }
  return static_cast<int>(std::min(std::ceil(columns - 1e-9), static_cast<double>(max_columns)));
}

void draw(const TraceEvent& event, double columns_per_second, std::string& line) {
  const auto column = [&](double seconds) {
    const auto at = static_cast<std::size_t>(std::lround(seconds * columns_per_second));
    return std::min(at, line.size());
  };
  const std::size_t begin = column(event.start_seconds);
  const std::size_t end = column(event.start_seconds + event.duration_seconds);
  for (std::size_t at = begin; at < end; ++at) {
    const std::size_t letter = at - begin;
    const bool is_last = at + 1 == end && end - begin > 1;  // keeps neighbours apart
    line[at] = is_last ? ' ' : letter < event.name.size() ? event.name[letter] : '-';
  }
}

}  // namespace

std::string text_gantt(const Timeline& timeline, int max_columns) {
  const double end = end_seconds(timeline);
  if (timeline.events.empty() || end <= 0) return "";
  const int columns = num_columns(timeline, max_columns);
  std::map<std::pair<int, int>, std::string> lines;  // by (rank, stream)
  for (const TraceEvent& event : timeline.events) {
    auto& line = lines[{event.rank, event.stream}];
    if (line.empty()) line.assign(static_cast<std::size_t>(columns), '.');
    draw(event, columns / end, line);
  }
  const bool has_streams = timeline.stream_names.size() > 1;
  std::string text;
  for (const auto& [at, line] : lines) {
    const std::string stream =
        has_streams ? fmt::format(" {:<13}", stream_name(timeline, at.second)) : "";
    text += fmt::format("rank {:<3}{}  {}\n", at.first, stream, line);
  }
  return text;
}

}  // namespace trireme
