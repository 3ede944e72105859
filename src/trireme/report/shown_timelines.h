// As much of timelines as a picture can show.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trireme/report/trace.h"

namespace trireme {

struct ShownTimelines {
  std::vector<Timeline> timelines;
  std::string left_out;  ///< what is not shown, in sentences; empty = everything is
};

/// Timelines of one step, on one scale of time, with no more than `most_events` events in all of
/// them: of more than 8 ranks the first stream alone, of more than 16 ranks 16, evenly chosen with
/// the first and the last one; then, only if there are still too many events, neighbours joined
/// where a pixel cannot tell them apart (joined_timeline), and at last only what begins before some
/// moment.
[[nodiscard]] ShownTimelines shown_timelines(std::vector<Timeline> timelines,
                                             std::size_t most_events);

}  // namespace trireme
