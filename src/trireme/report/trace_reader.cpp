#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/report/trace.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr double kMicroseconds = 1e6;

void read_event(const Json& json, Timeline& timeline) {
  const std::string kind = json.at("ph");
  if (kind == "M" && json.at("name") == "thread_name") {
    const auto stream = json.at("tid").get<std::size_t>();
    constexpr std::size_t kMaxStreams = 1024;
    if (stream >= kMaxStreams) return;
    if (timeline.stream_names.size() <= stream) timeline.stream_names.resize(stream + 1);
    timeline.stream_names[stream] = json.at("args").at("name");
  }
  if (kind != "X") return;
  TraceEvent event{.rank = json.at("pid"),
                   .stream = json.at("tid"),
                   .name = json.at("name"),
                   .category = json.at("cat"),
                   .start_seconds = json.at("ts").get<double>() / kMicroseconds,
                   .duration_seconds = json.at("dur").get<double>() / kMicroseconds};
  const Json& args = json.at("args");
  if (args.contains("micro_batch")) event.micro_batch = args.at("micro_batch").get<int>();
  timeline.events.push_back(std::move(event));
}

}  // namespace

Timeline parse_chrome_trace(std::string_view text, const std::string& source) {
  try {
    const Json json = Json::parse(text);
    Timeline timeline{.title = json.at("otherData").at("title")};
    for (const Json& event : json.at("traceEvents")) read_event(event, timeline);
    return timeline;
  } catch (const Json::exception& error) {
    throw UsageError(
        fmt::format("[{}] is no trace file of trireme ({}); give the trace.json of a run with "
                    "trace.steps",
                    source, error.what()));
  }
}

}  // namespace trireme
