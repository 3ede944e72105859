#include "trireme/report/trace.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

Timeline two_ranks() {
  return {.title = "overlapped",
          .stream_names = {"compute"},
          .events = {{.rank = 0,
                      .name = "F0",
                      .category = "forward",
                      .start_seconds = 0.001,
                      .duration_seconds = 0.0025,
                      .micro_batch = 0},
                     {.rank = 1,
                      .stream = 1,
                      .name = "reduce \"b0\"",
                      .category = "communication",
                      .start_seconds = 0.0,
                      .duration_seconds = 0.004}}};
}

TEST(ChromeTrace, HoldsNamesThenCompleteEventsInMicroseconds) {
  const auto trace = nlohmann::json::parse(chrome_trace_json(two_ranks()));
  EXPECT_EQ(trace, nlohmann::json::parse(R"({"displayTimeUnit":"ms",
    "otherData":{"title":"overlapped"},"traceEvents":[
    {"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},
    {"ph":"M","name":"process_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
    {"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"rank 1"}},
    {"ph":"M","name":"process_sort_index","pid":1,"tid":0,"args":{"sort_index":1}},
    {"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"compute"}},
    {"ph":"M","name":"thread_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
    {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"stream 1"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
    {"ph":"X","name":"F0","cat":"forward","pid":0,"tid":0,"ts":1000.0,"dur":2500.0,
     "args":{"micro_batch":0}},
    {"ph":"X","name":"reduce \"b0\"","cat":"communication","pid":1,"tid":1,"ts":0.0,
     "dur":4000.0,"args":{}}]})"));
}

TEST(ChromeTrace, EmptyTimelineIsStillATrace) {
  const auto trace = nlohmann::json::parse(chrome_trace_json({}));
  EXPECT_TRUE(trace["traceEvents"].empty());
}

TEST(Timeline, EndsWithItsLastEvent) {
  EXPECT_EQ(end_seconds(two_ranks()), 0.004);
  EXPECT_EQ(end_seconds({}), 0.0);
}

TEST(ChromeTrace, HoldsSamplesAsCounters) {
  const Timeline timeline{.samples = {{.rank = 2,
                                       .name = "memory (bytes)",
                                       .start_seconds = 1e-3,
                                       .values = {{"activations", 64}}}}};
  const auto event = nlohmann::json::parse(chrome_trace_json(timeline))["traceEvents"][0];
  EXPECT_EQ(event["ph"], "C");
  EXPECT_EQ(event["pid"], 2);
  EXPECT_EQ(event["ts"], 1000);
  EXPECT_EQ(event["args"]["activations"], 64);
}

TEST(ParseChromeTrace, GivesBackWhatWasWritten) {
  const Timeline timeline{.title = "a \"run\"",
                          .stream_names = {"compute", "tensor"},
                          .events = {{.rank = 1,
                                      .stream = 0,
                                      .name = "F0",
                                      .category = "forward",
                                      .start_seconds = 0.25,
                                      .duration_seconds = 0.5,
                                      .micro_batch = 7},
                                     {.rank = 1,
                                      .stream = 1,
                                      .name = "sum",
                                      .category = "communication",
                                      .start_seconds = 0.5,
                                      .duration_seconds = 0.125}}};
  const Timeline again = parse_chrome_trace(chrome_trace_json(timeline), "trace.json");
  EXPECT_EQ(again.title, timeline.title);
  EXPECT_EQ(again.stream_names, timeline.stream_names);
  EXPECT_EQ(again.events, timeline.events);
}

TEST(ParseChromeTrace, RefusesOtherFiles) {
  for (const char* const text : {"", "{}", "[1]", "{\"traceEvents\":[{\"ph\":1}]}"})
    EXPECT_THROW(static_cast<void>(parse_chrome_trace(text, "x.json")), UsageError) << text;
}

}  // namespace
}  // namespace trireme
