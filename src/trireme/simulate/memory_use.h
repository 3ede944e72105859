// Memory of a rank over its step, and what lives when it is fullest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/program/place.h"
#include "trireme/program/program.h"
#include "trireme/simulate/core_clock.h"

namespace trireme {

/// What a rank holds from a moment on, until the next sample.
struct MemorySample {
  double seconds = 0;
  KindBytes bytes{};
  [[nodiscard]] std::int64_t total() const;
};

struct LiveBuffer {
  std::string name;
  std::int64_t bytes = 0;  ///< of all copies
  int copies = 1;          ///< micro-batches in flight, of a framed buffer
};

/// The moment at which most bytes live, the first of its kind.
struct MemoryPeak {
  double seconds = 0;
  std::int64_t bytes = 0;        ///< sum of `live`
  int position = 0;              ///< in the step, of the instruction that begins then
  std::vector<LiveBuffer> live;  ///< largest first
};

struct MemoryUse {
  std::vector<MemorySample> samples;  ///< ascending; the first at 0
  MemoryPeak peak;
};

/// A buffer with memory of its own lives all the time, a transient one from its first instruction
/// to its last one in a call, and a frame from the first to the last call of its micro-batch. Bytes
/// are rounded up as place() does. `times` are those of the program's instructions.
[[nodiscard]] MemoryUse memory_use(const Program& program, const std::vector<OpTime>& times);

/// The call and instruction at a position of the step: "BWD HEAD, micro-batch 3".
[[nodiscard]] std::string instruction_text(const Program& program, int position);

}  // namespace trireme
