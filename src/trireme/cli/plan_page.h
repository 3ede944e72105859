// trireme plan --html. Private to the layer.
#pragma once

#include <optional>
#include <string>

#include "trireme/cli/plan_text.h"
#include "trireme/program/program.h"

namespace trireme {

/// A page about a plan that has a layout: the ranking, what the layouts wait for and what fills
/// their memory, why the runner-up loses, and the best layout's step on the virtual clock. Its size
/// does not grow with the number of devices or micro-batches.
[[nodiscard]] std::string plan_html(const PlanRequest& request, const Plan& plan,
                                    const PlanQuestions& questions,
                                    const std::optional<Explanation>& explanation);

/// The step of an offered layout for its picture: of the whole batch, or of the first of its
/// micro-batches where their number makes the step too long to simulate.
struct PlannedStep {
  BuildRequest build;
  std::int64_t micro_batches = 0;  ///< of `build`
  std::int64_t of = 0;             ///< of the layout
};
/// With at most about `most_instructions` on all ranks that are simulated, but no fewer
/// micro-batches than fill the pipeline twice. Throws UsageError for what Trireme does not train.
[[nodiscard]] PlannedStep planned_step(const PlanRequest& request, const PlannedLayout& planned,
                                       std::int64_t most_instructions);

}  // namespace trireme
