// A table of layouts with what each would do appended: `trireme predict`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/base/csv.h"
#include "trireme/cost/case_columns.h"
#include "trireme/cost/cluster.h"
#include "trireme/cost/estimate.h"
#include "trireme/cost/profile.h"

namespace trireme {

/// Of one row.
struct Prediction {
  double step_seconds = 0;
  double first_stage_bytes = 0;
  double peak_bytes = 0;  ///< of the fullest stage
  bool fits = false;
  double state_bytes = 0;       ///< of the first stage: parameters, gradients, optimizer
  double activation_bytes = 0;  ///< of the first stage, kept for backward passes
  double bubble_seconds = 0;
  double exposed_seconds = 0;  ///< communication that nothing hides
};

struct PredictRequest {
  Cluster cluster;
  std::string framework;  ///< name or path of a profile
  /// Prices Trireme's own programs; empty = as ScheduleClock::estimate().
  std::function<Prediction(const PricedCase&, const Cluster&, const Profile&)> price_programs = {};
  bool is_closed_form = false;  ///< also of pipelines, whose schedules are simulated else
};

[[nodiscard]] Prediction prediction_of(const Estimate& estimate);

/// `cases` in the same order, with the columns pred_step_s, pred_tok_s_gpu, pred_tflops_gpu (model
/// FLOPs of 10^12, full attention square), pred_mfu (0 to 1, of the dense peak of the row's
/// precision), pred_mem_gib (first stage), pred_peak_mem_gib (fullest stage), pred_fits (0 or
/// 1), pred_note, and of the first stage pred_state_gib and pred_activation_gib, and pred_bubble_s
/// and pred_exposed_s, in place of older ones. A row that cannot be priced has blanks and a
/// note. Reads the columns of case_columns() alone.
[[nodiscard]] CsvTable predict_table(const CsvTable& cases, const PredictRequest& request);

}  // namespace trireme
