// Seconds of a step in closed form.
#pragma once

#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/cost/estimate.h"
#include "trireme/cost/stages.h"

namespace trireme {

/// Per stage and micro-batch: products by shape, attention, element-wise bytes and the floor of the
/// host; per pipeline: (m - 1) of the slowest stage and one of each, less what the schedule hides;
/// tensor- and context-parallel traffic that nothing hides; once a step the reduction of gradients
/// behind the last backward pass, the gathering of parameters, and the optimizer.
[[nodiscard]] StepSeconds step_seconds(const Workload& workload, const Cluster& cluster,
                                       const Profile& profile,
                                       const std::vector<StageShare>& shares);

}  // namespace trireme
