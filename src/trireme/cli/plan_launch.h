// trireme plan --emit. Private to the layer.
#pragma once

#include <string>

#include "trireme/plan/launch/launch.h"
#include "trireme/plan/planner.h"

namespace trireme {

struct EmitTarget {
  Framework framework{};
  std::string folder;  ///< where the configuration is written; exists
};

/// Throws UsageError for an unknown framework and for a folder that is none.
[[nodiscard]] EmitTarget emit_target(const std::string& framework, const std::string& folder);

/// Writes the configuration of the best of `plan.layouts` that the framework can run, and says with
/// which command it starts and why better layouts were passed over. UsageError if it can run none,
/// ResourceError if the file cannot be written.
[[nodiscard]] std::string emit_launch(const PlanRequest& request, const Plan& plan,
                                      const EmitTarget& target);

}  // namespace trireme
