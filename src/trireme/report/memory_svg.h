// Pictures of a rank's memory over a step.
#pragma once

#include <string>

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

}  // namespace trireme
