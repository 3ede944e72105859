// Pictures of a rank's memory over a step, and of what a step is made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/simulate/memory_use.h"

namespace trireme {

struct MemoryPicture {
  std::string title;
  std::string peak_label;  ///< beside the mark at the peak
  double end_seconds = 0;  ///< of the time axis
  double limit_bytes = 0;  ///< of the device, a line unless it is far above the peak; 0 = none
};

/// A self-contained SVG file: memory by kind, stacked, over the time of the step; the peak is
/// marked. Where several samples share a column of pixels, the fullest one is drawn.
[[nodiscard]] std::string memory_svg(const MemoryUse& memory, const MemoryPicture& picture);

/// A self-contained SVG file: a row for each term with its bar where the one above ends, then their
/// sum. Terms of 0 are left out.
[[nodiscard]] std::string waterfall_svg(
    const std::string& title, const std::vector<std::pair<std::string, double>>& term_seconds);

}  // namespace trireme
