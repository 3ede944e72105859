// Why a plan is what it is: what binds it, what the others lose, what a change would bring.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/planner.h"

namespace trireme {

/// Terms of a step's seconds in two layouts; their sums are the steps.
struct WaterfallTerm {
  std::string_view name;
  double from = 0;
  double to = 0;
  [[nodiscard]] double change() const { return to - from; }
};
using Waterfall = std::vector<WaterfallTerm>;
[[nodiscard]] Waterfall waterfall(const PlannedLayout& from, const PlannedLayout& to);

/// One line: what `other` takes longer for than `best`, largest first.
[[nodiscard]] std::string why_slower(const PlannedLayout& best, const PlannedLayout& other);

/// What takes most of a step, and its share.
[[nodiscard]] std::string largest_term(const PlannedLayout& planned);

/// The same request with something changed.
struct WhatIf {
  std::string change;
  std::optional<PlannedLayout> best = {};  ///< nothing if no layout fits
  double speedup = 0;                      ///< of tokens/s, against the plan's best
};

struct Explanation {
  // Does it fit?
  double whole_state_bytes = 0;  ///< parameters, gradients, optimizer of all layers
  double sequence_bytes = 0;     ///< what one sequence keeps for the backward pass, all layers
  double device_bytes = 0;       ///< that a device has; of a calibrated machine: all its memory
  double fixed_bytes = 0;        ///< outside of what is planned: context, communicators
  // Does it reach the global batch?
  std::int64_t most_replicas = 0;  ///< dp that the batch and the devices allow
  // Is it fastest?
  std::optional<WhatIf> tp_outside = {};  ///< the least tp that leaves a node
  /// Unlimited memory, 1 GiB more, network x 2, batch x 2. On a calibrated machine unlimited memory
  /// where it refused a layout, and batch x 2.
  std::vector<WhatIf> changes;
  std::string binding;  ///< what holds the best layout back
};

/// `plan` has a layout. Searches again for each change.
[[nodiscard]] Explanation explain(const PlanRequest& request, const Plan& plan,
                                  const PlanOptions& options);

/// Why there is no layout at all, with the tightest limit and what would do.
[[nodiscard]] std::string impossible_because(const PlanRequest& request, const Plan& plan);

/// The fastest layout that fits when nothing is fixed or bounded; nothing where nothing was.
[[nodiscard]] std::optional<PlannedLayout> fastest_without_limits(PlanRequest request,
                                                                  const PlanOptions& options);

/// Nodes on which a layout fits: doubled until one does, then as few as halving the difference
/// finds; nothing up to 64 times as many.
[[nodiscard]] std::optional<int> nodes_that_fit(PlanRequest request, const PlanOptions& options);

}  // namespace trireme
