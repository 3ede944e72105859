#include <gtest/gtest.h>

#include "trireme/report/trace.h"

namespace trireme {
namespace {

TraceEvent event(std::string category, double start, double end, std::optional<int> micro_batch) {
  return {.name = "x",
          .category = std::move(category),
          .start_seconds = start,
          .duration_seconds = end - start,
          .micro_batch = micro_batch};
}

TEST(JoinedTimeline, NeighboursOfOnePassBecomeOneEvent) {
  const Timeline timeline{.events = {event("forward", 0, 1, 3), event("forward", 1, 2, 3)}};
  const Timeline joined = joined_timeline(timeline, 0.5);
  ASSERT_EQ(joined.events.size(), 1U);
  EXPECT_EQ(joined.events[0].name, "F3");
  EXPECT_DOUBLE_EQ(joined.events[0].duration_seconds, 2);
}

TEST(JoinedTimeline, AnotherMicroBatchStaysApart) {
  const Timeline timeline{.events = {event("forward", 0, 1, 3), event("forward", 1, 2, 4)}};
  EXPECT_EQ(joined_timeline(timeline, 0.5).events.size(), 2U);
}

TEST(JoinedTimeline, AVisibleGapStays) {
  const Timeline timeline{.events = {event("forward", 0, 1, 3), event("forward", 2, 3, 3)}};
  EXPECT_EQ(joined_timeline(timeline, 0.5).events.size(), 2U);
}

TEST(JoinedTimeline, ATrifleDoesNotCutAPass) {
  const Timeline timeline{.events = {event("forward", 0, 1, 3), event("other", 1, 1.1, 3),
                                     event("forward", 1.1, 2, 3)}};
  EXPECT_EQ(joined_timeline(timeline, 0.5).events.size(), 1U);
}

}  // namespace
}  // namespace trireme
