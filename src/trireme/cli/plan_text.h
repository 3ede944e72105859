// What `trireme plan` prints. Private to the layer.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/plan/explain.h"
#include "trireme/plan/goodput.h"
#include "trireme/plan/planner.h"
#include "trireme/plan/sweep.h"

namespace trireme {

/// What is asked of the layouts beside their ranking.
struct PlanQuestions {
  double tokens = 0;  ///< of the whole training, for GPU-hours; 0 = not asked
  std::optional<FailureModel> failures = {};
};

struct PlanTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< by layout
};
/// The ranking: degrees, seconds and rates.
[[nodiscard]] PlanTable times_table(const PlanRequest& request,
                                    std::span<const PlannedLayout> layouts,
                                    const PlanQuestions& questions);

/// Of the rank of the pipeline that has most.
[[nodiscard]] const StageKinds& fullest_stage(const PlannedLayout& planned);
/// Bytes of all kinds with one of these names.
[[nodiscard]] double kind_bytes(const StageKinds& kinds,
                                std::initializer_list<std::string_view> names);

/// The request in two lines.
[[nodiscard]] std::string request_text(const PlanRequest& request);

/// Ranked tables of time and of memory, and the text of each layout for --layout.
[[nodiscard]] std::string layouts_text(const PlanRequest& request,
                                       std::span<const PlannedLayout> layouts,
                                       const PlanQuestions& questions);

/// In which a plan shows memory.
struct MemoryUnit {
  std::string_view name = "GiB";
  double bytes = kGib;

  [[nodiscard]] std::string text_of(double amount) const {
    return fmt::format("{:.1f} {}", amount / bytes, name);
  }
};
/// MiB for small layouts of a calibrated machine, else GiB.
[[nodiscard]] MemoryUnit memory_unit(const PlanRequest& request,
                                     std::span<const PlannedLayout> layouts);

/// How many layouts were looked at, and what refused them.
[[nodiscard]] std::string counts_text(const Plan& plan);

/// The layout that needs least where none fits.
[[nodiscard]] std::string nearest_text(const PlanRequest& request, const PlannedLayout& nearest);
/// What would make one fit: `nodes`, or, if not even many would do, a smaller model.
[[nodiscard]] std::string remedy_text(const PlanRequest& request, std::optional<int> nodes);

[[nodiscard]] std::string explanation_text(const PlanRequest& request, const Plan& plan,
                                           const Explanation& explanation);

/// Best checkpoint interval and share of the time that is left.
[[nodiscard]] std::string goodput_text(const FailureModel& failures, double step_seconds);

[[nodiscard]] std::string sweep_text(std::span<const SweepCell> cells);

/// One object as the contract names its keys.
[[nodiscard]] std::string plan_json(const PlanRequest& request, const Plan& plan,
                                    const PlanQuestions& questions,
                                    const std::optional<Explanation>& explanation);

/// A table with one layout a row, which `trireme predict` reads.
[[nodiscard]] std::string plan_csv(const PlanRequest& request,
                                   std::span<const PlannedLayout> layouts);

}  // namespace trireme
