#include "trireme/report/shown_timelines.h"

#include <set>

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// `num_events` alternating passes of a second each on each of `num_ranks` ranks.
Timeline passes(int num_ranks, int num_events) {
  Timeline timeline{.title = "t", .stream_names = {"compute"}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (int i = 0; i < num_events; ++i) {
      timeline.events.push_back({.rank = rank,
                                 .name = "x",
                                 .category = i % 2 == 0 ? "forward" : "backward",
                                 .start_seconds = 1.0 * i,
                                 .duration_seconds = 1.0,
                                 .micro_batch = i});
    }
  }
  return timeline;
}

TEST(ShownTimelines, FewEventsStayAsTheyAre) {
  const ShownTimelines shown = shown_timelines({passes(2, 3)}, 6);
  EXPECT_EQ(shown.timelines.front().events, passes(2, 3).events);
  EXPECT_EQ(shown.left_out, "");
}

TEST(ShownTimelines, ManyRanksAreChosenEvenlyWithTheFirstAndTheLast) {
  const ShownTimelines shown = shown_timelines({passes(64, 1)}, 1000);
  std::set<int> ranks;
  for (const TraceEvent& event : shown.timelines.front().events) ranks.insert(event.rank);
  EXPECT_EQ(ranks, (std::set{0, 4, 8, 12, 16, 21, 25, 29, 33, 37, 42, 46, 50, 54, 58, 63}));
  EXPECT_EQ(shown.left_out, "Of 16 of 64 ranks the stream compute is drawn.");
}

TEST(ShownTimelines, OfManyRanksTheFirstStreamIsDrawn) {
  Timeline timeline = passes(9, 2);
  timeline.events.back().stream = 1;
  const ShownTimelines shown = shown_timelines({timeline}, 1000);
  EXPECT_EQ(shown.timelines.front().events.size(), 17U);
  EXPECT_EQ(shown.left_out, "Of each rank the stream compute is drawn.");
}

TEST(ShownTimelines, TooManyEventsAreCutAtAMoment) {
  const ShownTimelines shown = shown_timelines({passes(2, 100)}, 21);
  EXPECT_EQ(shown.timelines.front().events.size(), 20U);
  EXPECT_EQ(end_seconds(shown.timelines.front()), 10.0);
  EXPECT_EQ(shown.left_out, "Drawn are the first 10000 of 100000 ms.");
}

TEST(ShownTimelines, StackedTimelinesAreCutAtOneMoment) {
  const ShownTimelines shown = shown_timelines({passes(1, 100), passes(1, 100)}, 20);
  EXPECT_EQ(end_seconds(shown.timelines[0]), end_seconds(shown.timelines[1]));
}

TEST(ShownTimelines, AnEventEndsWhereThePictureDoes) {
  Timeline timeline = passes(1, 10);
  timeline.events.front().duration_seconds = 9;
  const ShownTimelines shown = shown_timelines({timeline}, 5);
  EXPECT_EQ(shown.timelines.front().events.front().duration_seconds, 5.0);
}

TEST(ShownTimelines, WhatAPixelCannotShowIsJoinedBeforeAnythingIsCut) {
  Timeline timeline;
  for (int i = 0; i < 100; ++i) {
    timeline.events.push_back({.name = "x",
                               .category = "forward",
                               .start_seconds = 1.0 * i,
                               .duration_seconds = 1.0,
                               .micro_batch = 0});
  }
  const ShownTimelines shown = shown_timelines({timeline}, 10);
  EXPECT_EQ(shown.timelines.front().events.size(), 1U);
  EXPECT_EQ(shown.left_out, "");
}

}  // namespace
}  // namespace trireme
