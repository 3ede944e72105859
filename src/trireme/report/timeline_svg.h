// Timelines as a picture.
#pragma once

#include <span>
#include <string>

#include "trireme/report/trace.h"

namespace trireme {

/// A self-contained SVG file: a lane per (rank, stream), events coloured by category, a legend, and
/// one time axis in ms for all timelines, stacked in the given order. An event's name is drawn
/// where it fits and is always in its tooltip. `categories` have the first colours, in that order,
/// even if no event bears them; others follow in the order in which they first appear.
[[nodiscard]] std::string timeline_svg(std::span<const Timeline> timelines,
                                       std::span<const std::string> categories = {});

}  // namespace trireme
