// Plans for a calibrated machine: layouts priced by the programs that would run.
#pragma once

#include "trireme/plan/planner.h"

namespace trireme {

/// Work of pricing a layout: ranks x layers of each x (micro-batches + the update).
[[nodiscard]] double pricing_work(const Workload& workload);

/// What one plan may spend for each core of the machine, in that unit, by default, beside the
/// plainest layout of each (tp, cp, pp, dp): 3 to 9 s on a Zen 3 core, least for few ranks.
inline constexpr double kPricingWorkPerCore = 10'000;

/// The layouts of `request.devices` ranks, or also of fewer, that the exact rules leave, each with
/// cores / ranks threads a rank; no closed form is asked. Their programs are built, verified,
/// placed (together they must fit into the machine's memory) and run on the clock. Where all of
/// them are more than `most_work`: the plainest layout of each (tp, cp, pp, dp), those before that
/// leave fewer cores idle and have fewer ranks; then, while work is left, always the layouts that
/// differ in one choice from the best one whose neighbours are unknown; what is left
/// counts as `not_priced`. Without bands. The same with any number of threads. Throws UsageError
/// for a cluster file that lacks what the programs need.
[[nodiscard]] Plan make_machine_plan(const PlanRequest& request, const PlanOptions& options,
                                     double most_work);

/// Index in `plan.layouts`, which has some: the fastest, or, of those that are slower by less than
/// predictions of steps are wrong, the one whose ranks meet least often. Each meeting can wait for
/// a thread that has lost its core, which has no price.
[[nodiscard]] std::size_t steadiest(const Plan& plan);

/// Median error of predicted steps, on the worse of the machines measured (docs/calibrate.md).
inline constexpr double kMedianStepError = 0.057;

/// One layout, priced likewise.
[[nodiscard]] PlannedLayout machine_layout(const PlanRequest& request, const Workload& workload);

}  // namespace trireme
