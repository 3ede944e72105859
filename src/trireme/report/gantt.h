// A timeline as plain text.
#pragma once

#include <string>

#include "trireme/report/trace.h"

namespace trireme {

/// One line per rank and stream that has events, "rank 0  F0 F1 ..B0....": each event begins with
/// its name (cut where it does not fit) and goes on with '-'; '.' is idle. The columns are as many
/// as the shortest event needs for its name, at most `max_columns`. Empty without events.
[[nodiscard]] std::string text_gantt(const Timeline& timeline, int max_columns);

}  // namespace trireme
