#include "trireme/plan/predict_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/base/words.h"
#include "trireme/cost/estimate.h"
#include "trireme/cost/kernels.h"
#include "trireme/simulate/schedule_clock.h"

namespace trireme {
namespace {

const std::vector<std::string> kColumns = {
    "pred_step_s",    "pred_tok_s_gpu",      "pred_tflops_gpu", "pred_mfu",
    "pred_mem_gib",   "pred_peak_mem_gib",   "pred_fits",       "pred_note",
    "pred_state_gib", "pred_activation_gib", "pred_bubble_s",   "pred_exposed_s"};
constexpr std::size_t kNote = 7;

/// Where a row is priced.
struct Site {
  Cluster cluster;
  Profile profile;
};

/// The request's cluster, and the known ones of other devices that rows name, each read once.
class Sites {
 public:
  explicit Sites(const PredictRequest& request)
      : framework_(request.framework),
        given_{request.cluster, read_profile(request.framework, request.cluster)} {}

  [[nodiscard]] const Site& given() const { return given_; }

  const Site& of(const std::string& gpu_type) {
    if (gpu_type.empty() || matches(given_.cluster, gpu_type)) return given_;
    for (const BuiltInFile& file : built_in_files()) {
      if (file.folder != "clusters") continue;
      const Site& site = known(std::string(file.stem));
      if (matches(site.cluster, gpu_type)) return site;
    }
    throw UsageError(
        fmt::format("gpu_type = \"{}\": no cluster file for it; leave it blank to use {}",
                    shortened(gpu_type), given_.cluster.name));
  }

 private:
  static bool matches(const Cluster& cluster, const std::string& gpu_type) {
    return std::any_of(cluster.gpu_types.begin(), cluster.gpu_types.end(), [&](const auto& type) {
      return gpu_type == type || gpu_type.starts_with(type + " ");
    });
  }

  const Site& known(const std::string& stem) {
    const auto found = known_.find(stem);
    if (found != known_.end()) return found->second;
    Cluster cluster = read_cluster(stem);
    Profile profile = read_profile(framework_, cluster);
    return known_.emplace(stem, Site{std::move(cluster), std::move(profile)}).first->second;
  }

  const std::string& framework_;
  Site given_;
  std::map<std::string, Site> known_;
};

std::vector<std::string> cells_of(const PricedCase& row, const Cluster& cluster,
                                  const Prediction& prediction) {
  if (!std::isfinite(prediction.step_seconds) || prediction.step_seconds <= 0 ||
      !std::isfinite(prediction.peak_bytes)) {
    throw UsageError(
        fmt::format("the numbers of {} and of the framework give {} s and {} bytes: neither can "
                    "be; correct them",
                    cluster.name, prediction.step_seconds, prediction.peak_bytes));
  }
  const Workload& workload = row.workload;
  const double tokens = static_cast<double>(workload.batch.tokens_per_step()) /
                        (prediction.step_seconds * workload.layout.world());
  const double flops = tokens * workload.model.flops_per_token(workload.batch.seq);
  return {fmt::format("{:.6g}", prediction.step_seconds),
          fmt::format("{:.6g}", tokens),
          fmt::format("{:.6g}", flops / 1e12),
          fmt::format("{:.5g}", flops / peak_flops_per_second(cluster.device, workload.precision)),
          fmt::format("{}", prediction.first_stage_bytes / kGib),
          fmt::format("{}", prediction.peak_bytes / kGib),
          prediction.fits ? "1" : "0",
          "",
          fmt::format("{:.6g}", prediction.state_bytes / kGib),
          fmt::format("{:.6g}", prediction.activation_bytes / kGib),
          fmt::format("{:.6g}", prediction.bubble_seconds),
          fmt::format("{:.6g}", prediction.exposed_seconds)};
}

CaseDefaults defaults_of(const Site& site) {
  return {.node_devices = site.cluster.node_devices,
          .zero = site.profile.default_zero,
          .sp = site.profile.default_sp,
          .is_llama_like = site.profile.is_llama_like};
}

}  // namespace

Prediction prediction_of(const Estimate& estimate) {
  return {.step_seconds = estimate.seconds.total(),
          .first_stage_bytes = std::round(estimate.first.total()),
          .peak_bytes = std::round(estimate.fullest.total()),
          .fits = estimate.fits,
          .state_bytes = estimate.first.state(),
          .activation_bytes = estimate.first.activations,
          .bubble_seconds = estimate.seconds.bubble,
          .exposed_seconds = estimate.seconds.exposed()};
}

CsvTable predict_table(const CsvTable& cases, const PredictRequest& request) {
  std::map<std::string_view, std::size_t> column_of;
  std::vector<std::size_t> kept;
  CsvTable result;
  for (std::size_t i = 0; i < cases.header.size(); ++i) {
    const std::string& name = cases.header[i];
    if (std::find(kColumns.begin(), kColumns.end(), name) != kColumns.end()) continue;
    kept.push_back(i);
    result.header.push_back(name);
    const auto& read = case_columns();
    if (std::find(read.begin(), read.end(), name) != read.end()) column_of.emplace(name, i);
  }
  result.header.insert(result.header.end(), kColumns.begin(), kColumns.end());
  Sites sites(request);
  ScheduleClock clock;
  for (const std::vector<std::string>& row : cases.rows) {
    std::vector<std::string>& out = result.rows.emplace_back();
    for (const std::size_t i : kept) out.push_back(i < row.size() ? row[i] : "");
    std::vector<std::string> predicted(kColumns.size());
    try {
      if (row.size() != cases.header.size()) {
        throw UsageError(fmt::format("the row has {} cells but the header {} columns", row.size(),
                                     cases.header.size()));
      }
      const auto cell = [&](std::string_view column) {
        const auto found = column_of.find(column);
        return found == column_of.end() ? std::string_view() : std::string_view(row[found->second]);
      };
      const Site& site = sites.of(lower_case(cell("gpu_type")));
      const PricedCase priced = read_case(cell, defaults_of(site));
      const auto estimated = [&] {
        const Profile profile = for_precision(site.profile, priced.workload.precision);
        return prediction_of(request.is_closed_form
                                 ? estimate(priced.workload, site.cluster, profile)
                                 : clock.estimate(priced.workload, site.cluster, profile));
      };
      predicted = cells_of(priced, site.cluster,
                           request.price_programs
                               ? request.price_programs(priced, site.cluster, site.profile)
                               : estimated());
    } catch (const Error& error) {
      predicted[kNote] = error.what();
    }
    out.insert(out.end(), predicted.begin(), predicted.end());
  }
  return result;
}

}  // namespace trireme
