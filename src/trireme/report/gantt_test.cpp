#include "trireme/report/gantt.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TraceEvent event(int rank, const char* name, double start, double duration) {
  return {.rank = rank, .name = name, .start_seconds = start, .duration_seconds = duration};
}

TEST(TextGantt, EveryEventHasRoomForItsName) {
  const Timeline timeline{.stream_names = {"compute"},
                          .events = {event(0, "F0", 0, 1), event(1, "F0", 1, 1),
                                     event(1, "B0", 2, 2), event(0, "B0", 4, 2)}};
  EXPECT_EQ(text_gantt(timeline, 100),
            "rank 0    F0 .........B0--- \n"
            "rank 1    ...F0 B0--- ......\n");
}

TEST(TextGantt, NamesAreCutWhereColumnsAreFew) {
  const Timeline timeline{.stream_names = {"compute"},
                          .events = {event(0, "F10", 0, 1), event(0, "F11", 1, 1)}};
  EXPECT_EQ(text_gantt(timeline, 4), "rank 0    F F \n");
}

TEST(TextGantt, NothingIsDrawnWithoutEvents) {
  EXPECT_EQ(text_gantt({}, 100), "");
}

}  // namespace
}  // namespace trireme
