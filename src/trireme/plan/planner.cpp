#include "trireme/plan/planner.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/cost/kernels.h"
#include "trireme/cost/memory.h"
#include "trireme/cost/stages.h"
#include "trireme/plan/machine_plan.h"
#include "trireme/plan/simulated_ranking.h"
#include "trireme/simulate/schedule_clock.h"

namespace trireme {
namespace {

StageKinds kinds_of(const StageBytes& bytes) {
  return {{"parameters", bytes.parameters}, {"gradients", bytes.gradients},
          {"optimizer", bytes.optimizer},   {"activations", bytes.activations},
          {"logits", bytes.logits},         {"communication", bytes.buffers}};
}

double mfu(const PlannedLayout& planned, const Cluster& cluster, bool is_causal) {
  const Workload& workload = planned.workload;
  const double full = workload.model.flops_per_token(workload.batch.seq);
  const double half_attention = 6.0 * static_cast<double>(workload.model.layers) *
                                static_cast<double>(workload.model.q_width()) *
                                static_cast<double>(workload.batch.seq);
  return planned.tokens_per_second_per_device() * (full - (is_causal ? half_attention : 0)) /
         peak_flops_per_second(cluster.device, workload.precision);
}

using DegreesKey = std::tuple<int, int, int, int>;

DegreesKey key_of(const Workload& workload) {
  const Layout& layout = workload.layout;
  return {layout.tp, layout.cp, layout.pp, layout.dp};
}

/// The request's best, one at a time, first those of degrees that were not offered yet.
class Selection {
 public:
  Selection(const PlanRequest& request, const PlanSpace& space, const PlanOptions& options,
            Plan& plan)
      : request_(request), space_(space), options_(options), plan_(plan) {}

  void take(const std::vector<PricedLayout>& ranked) {
    std::vector<bool> is_taken(ranked.size());
    for (const bool wants_new_degrees : {true, false}) {
      for (std::size_t i = 0; i < ranked.size() && plan_.layouts.size() < options_.top; ++i) {
        if (is_taken[i] || is_enough()) continue;
        const Workload workload = space_.layout_of(ranked[i].number);
        if (wants_new_degrees && degrees_.contains(key_of(workload))) continue;
        is_taken[i] = true;
        offer(workload);
      }
    }
  }

 private:
  /// After a signal one layout is enough.
  [[nodiscard]] bool is_enough() const {
    const std::atomic<int>* const stop = options_.control.stop;
    return stop != nullptr && stop->load() != 0 && !plan_.layouts.empty();
  }
  void offer(const Workload& workload) {
    PlannedLayout planned = planned_layout(request_, workload);
    if (options_.reprice) {
      if (const auto rule = options_.reprice(request_, planned)) {
        ++plan_.rejected.at(static_cast<std::size_t>(*rule));
        --plan_.num_fitting;
        return;
      }
    }
    degrees_.emplace(key_of(workload), true);
    plan_.layouts.push_back(std::move(planned));
  }

  const PlanRequest& request_;
  const PlanSpace& space_;
  const PlanOptions& options_;
  Plan& plan_;
  std::map<DegreesKey, bool> degrees_;
};

bool is_faster(const PlannedLayout& one, const PlannedLayout& other) {
  return one.step_seconds() < other.step_seconds();
}

/// Best first: each needs less memory than all before it.
std::vector<PlannedLayout> pareto_front(const PlanRequest& request, const PlanSpace& space,
                                        const std::vector<PricedLayout>& ranked) {
  std::vector<PlannedLayout> front;
  double least_bytes = 0;
  for (const PricedLayout& each : ranked) {
    if (!front.empty() && each.needed_bytes >= least_bytes) continue;
    least_bytes = each.needed_bytes;
    front.push_back(planned_layout(request, space.layout_of(each.number)));
  }
  // Beyond the layouts that were ranked by simulation, these are the first simulated ones.
  std::stable_sort(front.begin(), front.end(), is_faster);
  std::vector<PlannedLayout> kept;
  for (PlannedLayout& each : front) {
    if (kept.empty() || each.needed_bytes < kept.back().needed_bytes)
      kept.push_back(std::move(each));
  }
  return kept;
}

}  // namespace

double mfu_full(const PlannedLayout& planned, const Cluster& cluster) {
  return mfu(planned, cluster, false);
}

double mfu_causal(const PlannedLayout& planned, const Cluster& cluster) {
  return mfu(planned, cluster, true);
}

double spare_bytes(const PlanRequest& request, const PlannedLayout& planned) {
  return request.cluster.is_cpu ? request.machine_bytes() - planned.machine_bytes
                                : request.cluster.device.memory_bytes - planned.needed_bytes;
}

PlannedLayout planned_layout(const PlanRequest& request, const Workload& workload) {
  PlannedLayout planned;
  planned.workload = workload;
  planned.estimate = ScheduleClock().estimate(workload, request.cluster, request.profile);
  planned.needed_bytes = planned.estimate.needed_bytes;
  planned.low_seconds = planned.step_seconds() * request.profile.band_low;
  planned.high_seconds = planned.step_seconds() * request.profile.band_high;
  const std::vector<StageShare> shares = stage_shares(workload, request.profile.split);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    planned.stages.push_back(
        kinds_of(stage_bytes(workload, request.profile, shares[rank], static_cast<int>(rank))));
  }
  return planned;
}

Plan make_plan(const PlanRequest& request, const PlanOptions& options) {
  if (request.cluster.is_cpu) {
    return make_machine_plan(request, options, kPricingWorkPerCore * request.cluster.node_devices);
  }
  const PlanSpace space(request);
  SearchResult found = search(space, options.control);
  Plan plan{.searched = found.searched,
            .rejected = found.rejected,
            .num_fitting = static_cast<std::int64_t>(found.fitting.size()),
            .layouts = {},
            .pareto = {},
            .is_stopped = found.is_stopped};
  std::sort(found.fitting.begin(), found.fitting.end(), is_better);
  rank_by_simulation(request, space, found.fitting, options.control);
  Selection(request, space, options, plan).take(found.fitting);
  const std::atomic<int>* const stop = options.control.stop;
  plan.is_stopped = plan.is_stopped || (stop != nullptr && stop->load() != 0);
  std::stable_sort(plan.layouts.begin(), plan.layouts.end(), is_faster);
  if (options.has_pareto) plan.pareto = pareto_front(request, space, found.fitting);
  if (plan.layouts.empty() && found.nearest)
    plan.nearest = planned_layout(request, space.layout_of(found.nearest->number));
  return plan;
}

}  // namespace trireme
