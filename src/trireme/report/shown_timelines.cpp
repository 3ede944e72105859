#include "trireme/report/shown_timelines.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/report/table.h"

namespace trireme {
namespace {

/// Lanes of more ranks are a picture that nobody reads to its end.
constexpr std::size_t kMostRanks = 16;
constexpr std::size_t kMostRanksInFull = 8;
/// Of the axis: what lies closer than one of them is drawn as one.
constexpr double kPixels = 1100;

std::size_t num_events(const std::vector<Timeline>& timelines) {
  std::size_t count = 0;
  for (const Timeline& each : timelines) count += each.events.size();
  return count;
}

double end_of_all(const std::vector<Timeline>& timelines) {
  double end = 0;
  for (const Timeline& each : timelines) end = std::max(end, end_seconds(each));
  return end;
}

std::set<int> ranks_of(const std::vector<Timeline>& timelines) {
  std::set<int> ranks;
  for (const Timeline& each : timelines) {
    for (const TraceEvent& event : each.events) ranks.insert(event.rank);
  }
  return ranks;
}

void keep(std::vector<Timeline>& timelines, const std::function<bool(const TraceEvent&)>& is_kept) {
  for (Timeline& each : timelines) std::erase_if(each.events, std::not_fn(is_kept));
}

/// Of many ranks the first stream, of very many some of the ranks; says so.
std::string keep_some_lanes(std::vector<Timeline>& timelines) {
  const std::set<int> all = ranks_of(timelines);
  if (all.size() <= kMostRanksInFull) return "";
  keep(timelines, [](const TraceEvent& event) { return event.stream == 0; });
  const std::string stream = stream_name(timelines.front(), 0);
  if (all.size() <= kMostRanks) return fmt::format("Of each rank the stream {} is drawn.", stream);
  const std::vector<int> ranks(all.begin(), all.end());
  std::set<int> kept;
  for (std::size_t i = 0; i < kMostRanks; ++i)
    kept.insert(ranks[i * (ranks.size() - 1) / (kMostRanks - 1)]);
  keep(timelines, [&](const TraceEvent& event) { return kept.contains(event.rank); });
  return fmt::format("Of {} of {} ranks the stream {} is drawn.", kMostRanks, ranks.size(), stream);
}

/// Leaves what begins before the moment at which the events become too many, which it returns.
double cut(std::vector<Timeline>& timelines, std::size_t most_events) {
  std::vector<double> starts;
  for (const Timeline& each : timelines) {
    for (const TraceEvent& event : each.events) starts.push_back(event.start_seconds);
  }
  const auto first_left_out = starts.begin() + static_cast<std::ptrdiff_t>(most_events);
  std::nth_element(starts.begin(), first_left_out, starts.end());
  const double end = *first_left_out;
  for (Timeline& each : timelines) {
    each.title += fmt::format(", the first part of {} ms", milliseconds_text(end_seconds(each)));
    std::erase_if(each.events, [&](const TraceEvent& event) { return event.start_seconds >= end; });
    for (TraceEvent& event : each.events)
      event.duration_seconds = std::min(event.duration_seconds, end - event.start_seconds);
  }
  return end;
}

}  // namespace

ShownTimelines shown_timelines(std::vector<Timeline> timelines, std::size_t most_events) {
  ShownTimelines shown{.timelines = std::move(timelines), .left_out = {}};
  const double end = end_of_all(shown.timelines);
  shown.left_out = keep_some_lanes(shown.timelines);
  if (num_events(shown.timelines) <= most_events) return shown;
  for (Timeline& each : shown.timelines) each = joined_timeline(each, end / kPixels);
  if (num_events(shown.timelines) <= most_events) return shown;
  const double shown_end = cut(shown.timelines, most_events);
  shown.left_out +=
      fmt::format("{}Drawn are the first {} of {} ms.", shown.left_out.empty() ? "" : " ",
                  milliseconds_text(shown_end), milliseconds_text(end));
  return shown;
}

}  // namespace trireme
