// The Playbook's experiment: the best layout of each model on each number of nodes, beside the best
// that was published.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/csv.h"
#include "trireme/plan/planner.h"

namespace trireme {

/// A run of a table of measurements with the columns model, nodes, dp, tp, pp, mbs, zero and
/// tok_s_gpu.
struct PublishedRun {
  std::string model;
  int nodes = 0;
  Layout layout;
  std::int64_t micro_batch = 1;
  double tokens_per_second_per_device = 0;
};

/// Rows with a flag are left out. UsageError if a column is missing or a cell is no number.
[[nodiscard]] std::vector<PublishedRun> published_runs(const CsvTable& table,
                                                       const std::string& name);

struct SweepCell {
  std::string model;
  int nodes = 0;
  std::optional<PlannedLayout> best = {};          ///< of all layouts; nothing if none fits
  std::optional<PublishedRun> published = {};      ///< fastest run
  std::optional<PlannedLayout> published_as = {};  ///< as it is predicted
  /// What was measured of the published layout that is predicted to be fastest: the planner's
  /// choice among what was run.
  std::optional<PublishedRun> chosen = {};
};

/// Of one model on one number of nodes, with the cluster, framework, batch and length of `request`.
[[nodiscard]] SweepCell sweep_cell(const PlanRequest& request,
                                   const std::vector<PublishedRun>& runs,
                                   const PlanOptions& options);

}  // namespace trireme
