#include "trireme/plan/explain.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cost/memory.h"

namespace trireme {
namespace {

/// Changes of a step by less are not told apart.
constexpr double kNoticeable = 0.005;

WhatIf what_if(std::string change, const PlanRequest& request, const PlannedLayout& best,
               const PlanOptions& options) {
  WhatIf result{.change = std::move(change), .best = fastest_layout(request, options)};
  if (!result.best) return result;
  result.speedup = result.best->tokens_per_second() / best.tokens_per_second();
  return result;
}

PlanRequest with_memory(PlanRequest request, double bytes) {
  request.cluster.device.memory_bytes = bytes;
  return request;
}

PlanRequest with_network(PlanRequest request, double factor) {
  request.cluster.nic_bytes_per_second *= factor;
  for (BandwidthByNodes* const table : {&request.cluster.all_reduce, &request.cluster.all_gather,
                                        &request.cluster.reduce_scatter}) {
    for (std::size_t i = 0; i < table->nodes.size(); ++i) {
      if (table->nodes[i] > 1) table->bytes_per_second[i] *= factor;
    }
  }
  return request;
}

PlanRequest with_batch(PlanRequest request, std::int64_t factor) {
  request.global_batch *= factor;
  return request;
}

/// The least tp of the model that is more than a node has.
std::optional<int> tp_beyond_node(const PlanRequest& request) {
  for (int tp = request.cluster.node_devices + 1; tp <= request.devices; ++tp) {
    const bool divides = request.model.heads % tp == 0 && request.model.kv_heads % tp == 0 &&
                         request.model.ffn % tp == 0 && request.devices % tp == 0;
    if (divides) return tp;
  }
  return std::nullopt;
}

/// Also for layouts that do not fit: what matters is their time.
std::optional<WhatIf> outside_of_node(const PlanRequest& request, const PlannedLayout& best,
                                      PlanOptions options) {
  const auto tp = tp_beyond_node(request);
  if (!tp || request.limits.tp != 0) return std::nullopt;
  PlanRequest changed = with_memory(request, 1e18);
  changed.limits.tp = *tp;
  options.reprice = {};
  return what_if(fmt::format("tp = {}", *tp), changed, best, options);
}

void explain_machine(const PlanRequest& request, const Plan& plan, const PlanOptions& options,
                     Explanation& result) {
  const PlannedLayout& best = plan.layouts.front();
  result.device_bytes = request.machine_bytes();
  if (plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram)) > 0)
    result.changes.push_back(
        what_if("any amount of memory", with_memory(request, 1e18), best, options));
  result.changes.push_back(
      what_if("twice the global batch", with_batch(request, 2), best, options));
  result.binding = largest_term(best);
}

std::string binding_of(const Explanation& explanation, const PlannedLayout& best) {
  const WhatIf& memory = explanation.changes.front();
  const WhatIf& network = explanation.changes[2];
  if (memory.speedup > 1 + kNoticeable && memory.speedup >= network.speedup)
    return fmt::format("memory: with any amount a step would be {:.1f} % faster",
                       100 * (memory.speedup - 1));
  if (network.speedup > 1 + kNoticeable)
    return fmt::format("the network between nodes: at twice its bandwidth {:.1f} % faster",
                       100 * (network.speedup - 1));
  const StepSeconds& seconds = best.estimate.seconds;
  return fmt::format("computation: {:.0f} % of the step", 100 * seconds.compute / seconds.total());
}

}  // namespace

std::string largest_term(const PlannedLayout& planned) {
  const Waterfall terms = waterfall(planned, planned);
  const auto largest = std::max_element(
      terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  return fmt::format("{}: {:.0f} % of the step", largest->name,
                     100 * largest->from / planned.step_seconds());
}

Waterfall waterfall(const PlannedLayout& from, const PlannedLayout& to) {
  Waterfall terms;
  for (const StepTerm& term : kStepTerms) {
    terms.push_back(
        {term.name, from.estimate.seconds.*term.seconds, to.estimate.seconds.*term.seconds});
  }
  return terms;
}

std::string why_slower(const PlannedLayout& best, const PlannedLayout& other) {
  Waterfall terms = waterfall(best, other);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.change() > b.change(); });
  const double slower = other.step_seconds() / best.step_seconds() - 1;
  std::string text = fmt::format("{:.1f} % slower", 100 * slower);
  constexpr std::size_t kTold = 2;
  for (std::size_t i = 0; i < kTold; ++i) {
    if (terms[i].change() <= kNoticeable * slower * best.step_seconds()) break;
    text += fmt::format("{} {:+.3g} s {}", i == 0 ? ":" : ",", terms[i].change(), terms[i].name);
  }
  return text;
}

Explanation explain(const PlanRequest& request, const Plan& plan, const PlanOptions& options) {
  TRI_CHECK(!plan.layouts.empty());
  const PlannedLayout& best = plan.layouts.front();
  const Profile& profile = request.profile;
  Workload alone{.model = request.model,
                 .layout = {},
                 .batch = {.seq = request.seq, .micro_batch = 1, .global_batch = 1},
                 .precision = request.precision};
  Explanation result;
  result.whole_state_bytes =
      static_cast<double>(request.model.parameters()) *
      (profile.parameter_bytes + profile.gradient_bytes + profile.optimizer_state_bytes);
  result.sequence_bytes = static_cast<double>(request.model.layers * request.seq) *
                          kept_bytes_per_token(alone, profile);
  result.device_bytes = request.cluster.device.memory_bytes;
  result.fixed_bytes = best.estimate.overhead_bytes;
  result.most_replicas = std::min<std::int64_t>(request.devices, request.global_batch);
  if (request.cluster.is_cpu) {
    explain_machine(request, plan, options, result);
    return result;
  }
  PlanOptions closed_form = options;
  closed_form.reprice = {};
  result.changes = {
      what_if("any amount of memory", with_memory(request, 1e18), best, closed_form),
      what_if("1 GiB more on each device",
              with_memory(request, request.cluster.device.memory_bytes + kGib), best, options),
      what_if("twice the network between nodes", with_network(request, 2), best, options),
      what_if("twice the global batch", with_batch(request, 2), best, options)};
  result.tp_outside = outside_of_node(request, best, options);
  result.binding = binding_of(result, best);
  return result;
}

std::optional<PlannedLayout> fastest_without_limits(PlanRequest request,
                                                    const PlanOptions& options) {
  if (request.limits == PlanLimits{}) return std::nullopt;
  request.limits = {};
  return fastest_layout(request, options);
}

std::optional<int> nodes_that_fit(PlanRequest request, const PlanOptions& options) {
  const auto fits = [&] { return fastest_layout(request, options).has_value(); };
  constexpr int kDoublings = 6;
  int too_few = 0;
  for (int i = 0; i < kDoublings && too_few == 0; ++i) {
    request.devices *= 2;
    if (fits()) too_few = std::max(request.nodes() / 2, 1);
  }
  if (too_few == 0) return std::nullopt;
  int enough = request.nodes();
  while (enough - too_few > 1) {
    const int nodes = (too_few + enough) / 2;
    request.devices = nodes * request.cluster.node_devices;
    (fits() ? enough : too_few) = nodes;
  }
  return enough;
}

}  // namespace trireme
