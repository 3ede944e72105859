// A simulated training step as a timeline.
#pragma once

#include <string>
#include <vector>

#include "trireme/report/trace.h"
#include "trireme/simulate/memory_use.h"
#include "trireme/simulate/step_simulation.h"

namespace trireme {

/// Names, categories and streams as step_timeline() has them for executed steps; a communication
/// begins when all its members have. With the memory of each rank, in bytes by kind, from `memory`,
/// by simulated rank.
[[nodiscard]] Timeline simulated_timeline(std::string title, const StepSimulation& simulation,
                                          const std::vector<MemoryUse>& memory);

}  // namespace trireme
