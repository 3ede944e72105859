#include "trireme/plan/planner.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

/// The request's best, one at a time, first those of degrees that were not offered yet.
///
/// Which layouts that are is known only when those before them have been priced again. So all that
/// would be offered if none were refused are priced side by side, and chosen anew until each one
/// of the choice has been. Threads that have nothing to do meanwhile price what follows a refusal.
class Selection {
 public:
  Selection(const PlanRequest& request, const PlanSpace& space, const PlanOptions& options,
            const std::vector<PricedLayout>& ranked)
      : request_(request), space_(space), options_(options), ranked_(ranked) {}

  void add_to(Plan& plan) {
    Choice choice = choose();
    for (bool is_stopped = false; !choice.open.empty(); choice = choose()) {
      is_stopped = is_stopped || options_.control.is_stopped();
      // After a signal one layout is enough.
      if (is_stopped && choice.offered.size() > choice.open.size()) break;
      if (is_stopped) choice.open.resize(1);
      if (!is_stopped && choice.open.size() < num_threads(options_.control)) {
        const Choice next = choose({choice.open.begin(), choice.open.end()});
        choice.open.insert(choice.open.end(), next.open.begin(), next.open.end());
        choice.open.resize(std::min(choice.open.size(), num_threads(options_.control)));
      }
      price(choice.open, is_stopped ? nullptr : options_.control.stop);
    }
    for (const std::size_t i : choice.offered) {
      const auto found = priced_.find(i);
      if (found != priced_.end()) plan.layouts.push_back(std::move(found->second.planned));
    }
    for (const std::size_t i : choice.refused) {
      ++plan.rejected.at(static_cast<std::size_t>(*priced_.at(i).refused_by));
      --plan.num_fitting;
    }
  }

 private:
  struct Priced {
    PlannedLayout planned;
    std::optional<PlanRule> refused_by = {};
  };
  /// Places in the ranking.
  struct Choice {
    std::vector<std::size_t> offered;
    std::vector<std::size_t> open;  ///< of the offered, those that have not been priced again
    std::vector<std::size_t> refused;
  };

  /// As if `refused` had been.
  [[nodiscard]] Choice choose(const std::set<std::size_t>& refused = {}) const {
    Choice choice;
    std::vector<bool> is_taken(ranked_.size());
    std::vector<bool> has_degrees(space_.degrees().size());
    for (const bool wants_new_degrees : {true, false}) {
      for (std::size_t i = 0; i < ranked_.size() && choice.offered.size() < options_.top; ++i) {
        const std::size_t degrees = space_.degrees_index(ranked_[i].number);
        if (is_taken[i] || (wants_new_degrees && has_degrees[degrees])) continue;
        is_taken[i] = true;
        const auto found = priced_.find(i);
        if (refused.contains(i) || (found != priced_.end() && found->second.refused_by)) {
          choice.refused.push_back(i);
          continue;
        }
        has_degrees[degrees] = true;
        choice.offered.push_back(i);
        if (found == priced_.end()) choice.open.push_back(i);
      }
    }
    return choice;
  }

  void price(const std::vector<std::size_t>& open, const std::atomic<int>* stop) {
    std::vector<std::optional<Priced>> found(open.size());
    const SearchControl control{.threads = options_.control.threads, .stop = stop};
    static_cast<void>(for_each_on_threads(open.size(), control, [&] {
      return [&](std::size_t k) {
        Priced priced{planned_layout(request_, space_.layout_of(ranked_[open[k]].number))};
        if (options_.reprice) priced.refused_by = options_.reprice(request_, priced.planned);
        found[k] = std::move(priced);
      };
    }));
    for (std::size_t k = 0; k < open.size(); ++k) {
      if (found[k]) priced_.emplace(open[k], std::move(*found[k]));
    }
  }

  const PlanRequest& request_;
  const PlanSpace& space_;
  const PlanOptions& options_;
  const std::vector<PricedLayout>& ranked_;
  std::map<std::size_t, Priced> priced_;  ///< by place in the ranking
};

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

bool is_faster(const PlannedLayout& one, const PlannedLayout& other) {
  return one.step_seconds() < other.step_seconds();
}

double mfu_full(const PlannedLayout& planned, const Cluster& cluster) {
  return mfu(planned, cluster, false);
}

double mfu_causal(const PlannedLayout& planned, const Cluster& cluster) {
  return mfu(planned, cluster, true);
}

double counted_bytes(const PlanRequest& request, const PlannedLayout& planned) {
  return request.cluster.is_cpu ? planned.machine_bytes : planned.needed_bytes;
}

double spare_bytes(const PlanRequest& request, const PlannedLayout& planned) {
  const double has =
      request.cluster.is_cpu ? request.machine_bytes() : request.cluster.device.memory_bytes;
  return has - counted_bytes(request, planned);
}

std::optional<PlannedLayout> fastest_layout(const PlanRequest& request, PlanOptions options) {
  options.top = 1;
  options.has_pareto = false;
  Plan plan = make_plan(request, options);
  return plan.layouts.empty() ? std::nullopt : std::optional(std::move(plan.layouts.front()));
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
  Selection(request, space, options, found.fitting).add_to(plan);
  plan.is_stopped = plan.is_stopped || options.control.is_stopped();
  std::stable_sort(plan.layouts.begin(), plan.layouts.end(), is_faster);
  if (options.has_pareto) plan.pareto = pareto_front(request, space, found.fitting);
  if (plan.layouts.empty() && found.nearest)
    plan.nearest = planned_layout(request, space.layout_of(found.nearest->number));
  return plan;
}

}  // namespace trireme
