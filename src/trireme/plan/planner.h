// The best layouts of a request, and what is left of the others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/search.h"
#include "trireme/program/program.h"

namespace trireme {

/// Bytes of one rank by kind, in the order in which a table shows them.
struct KindAmount {
  std::string_view kind;
  double bytes = 0;
};
using StageKinds = std::vector<KindAmount>;

/// A layout that is offered.
struct PlannedLayout {
  Workload workload;
  Estimate estimate;
  std::vector<StageKinds> stages;  ///< by rank of the pipeline; of its fullest rank
  double needed_bytes = 0;         ///< of the fullest device, with what lies outside the arena
  bool is_from_program = false;    ///< memory of the placed program, not of the closed form
  double low_seconds = 0;          ///< a step lasts from here to `high_seconds` in 8 of 10 runs
  double high_seconds = 0;

  // On a calibrated machine, whose ranks share cores and memory; 0 elsewhere.
  int cores = 0;
  int threads_per_rank = 0;
  double machine_bytes = 0;  ///< that all ranks need together
  /// Messages and collectives of a step, and computations on several threads, which meet at the end
  /// of each; of the rank that has most.
  std::int64_t meetings = 0;

  [[nodiscard]] double step_seconds() const { return estimate.seconds.total(); }
  [[nodiscard]] double tokens_per_second() const {
    return static_cast<double>(workload.batch.tokens_per_step()) / step_seconds();
  }
  [[nodiscard]] double tokens_per_second_per_device() const {
    return tokens_per_second() / (cores > 0 ? cores : workload.layout.world());
  }
};

[[nodiscard]] bool is_faster(const PlannedLayout& one, const PlannedLayout& other);

/// What counts against the memory of a device: of the fullest; of a calibrated machine: of all
/// ranks.
[[nodiscard]] double counted_bytes(const PlanRequest& request, const PlannedLayout& planned);

/// What that leaves free; negative where the layout does not fit.
[[nodiscard]] double spare_bytes(const PlanRequest& request, const PlannedLayout& planned);

/// Share of the peak that the model's FLOPs reach, with the full square of attention or half.
[[nodiscard]] double mfu_full(const PlannedLayout& planned, const Cluster& cluster);
[[nodiscard]] double mfu_causal(const PlannedLayout& planned, const Cluster& cluster);

/// Prices one of the best few again, more exactly than the closed form; a rule refuses it.
using Reprice = std::function<std::optional<PlanRule>(const PlanRequest&, PlannedLayout&)>;

/// What `trireme train` would build for rank 0; `request.spec` is there.
[[nodiscard]] BuildRequest build_request(const PlanRequest& request, const Workload& workload);

/// For Trireme: `trireme train` takes the layout, and the memory is that of the placed program on
/// the fullest rank of each stage. Others are left as they are.
[[nodiscard]] std::optional<PlanRule> check_program(const PlanRequest& request,
                                                    PlannedLayout& planned);

struct Plan {
  std::int64_t searched = 0;
  RuleCounts rejected{};
  std::int64_t num_fitting = 0;
  std::int64_t not_priced = 0;                ///< on a calibrated machine: see machine_plan.h
  std::vector<PlannedLayout> layouts;         ///< best first
  std::vector<PlannedLayout> pareto;          ///< nothing else needs less memory and less time
  std::optional<PlannedLayout> nearest = {};  ///< where nothing fits: the least memory
  bool is_stopped = false;
};

struct PlanOptions {
  std::size_t top = 10;
  bool has_pareto = false;
  SearchControl control = {};
  Reprice reprice = check_program;
};

/// `top` layouts: the best one of each (tp, cp, pp, dp) while there are such, then the next best.
/// On a calibrated machine by make_machine_plan().
[[nodiscard]] Plan make_plan(const PlanRequest& request, const PlanOptions& options);

/// The fastest layout that fits, whatever `options` say to offer; nothing where none does.
[[nodiscard]] std::optional<PlannedLayout> fastest_layout(const PlanRequest& request,
                                                          PlanOptions options);

/// Of one layout; its memory in closed form.
[[nodiscard]] PlannedLayout planned_layout(const PlanRequest& request, const Workload& workload);

}  // namespace trireme
