// What is said of a request that no layout satisfies.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/plan/explain.h"
#include "trireme/plan/framework_rules.h"

namespace trireme {
namespace {

std::string degrees_text(const PlanLimits& limits) {
  std::vector<std::string> fixed;
  for (const auto& [name, value] : {std::pair("tp", limits.tp), std::pair("cp", limits.cp),
                                    std::pair("pp", limits.pp), std::pair("dp", limits.dp)}) {
    if (value != 0) fixed.push_back(fmt::format("{} = {}", name, value));
  }
  return fmt::format("{}", fmt::join(fixed, ", "));
}

std::int64_t product(const PlanLimits& limits) {
  return std::max<std::int64_t>(limits.tp, 1) * std::max(limits.cp, 1) * std::max(limits.pp, 1) *
         std::max(limits.dp, 1);
}

std::string no_degrees(const PlanRequest& request) {
  const PlanLimits& limits = request.limits;
  const std::string fixed = degrees_text(limits);
  if (limits.tp != 0 && limits.cp != 0 && limits.pp != 0 && limits.dp != 0) {
    return fmt::format("{} with {} devices: tp x cp x pp x dp must be the devices; use {} devices",
                       fixed, request.devices, product(limits));
  }
  if (request.devices % product(limits) == 0) {
    return fmt::format(
        "{}{} devices: no tp x cp x pp x dp within --max-tp, --max-cp and --max-pp is as many; "
        "lift one of them",
        fixed.empty() ? "" : fixed + " with ", request.devices);
  }
  return fmt::format(
      "{}{} devices: tp x cp x pp x dp must be the devices; use {} devices, or leave degrees free",
      fixed.empty() ? "" : fixed + " with ", request.devices,
      nearest_multiples(request.devices, product(limits)));
}

std::string no_choices(const PlanRequest& request) {
  const FrameworkRules& framework = framework_rules(request.profile.name);
  const PlanLimits& limits = request.limits;
  if (limits.micro_batch > 0 && request.global_batch % limits.micro_batch != 0) {
    return fmt::format("mbs = {} with a global batch of {}: must divide it; use mbs = {}",
                       limits.micro_batch, request.global_batch,
                       nearest_divisors(request.global_batch, limits.micro_batch));
  }
  const std::int64_t most_chunks = request.model.layers / std::max(limits.pp, 2);
  if (limits.chunks > most_chunks) {
    return fmt::format(
        "{}:{} with {} layers: each chunk of a stage needs a layer; use {} chunks or less",
        limits.schedule, limits.chunks, request.model.layers, most_chunks);
  }
  std::vector<std::string_view> recompute;
  for (const Recompute each : framework.recompute) recompute.push_back(recompute_name(each));
  return fmt::format(
      "what is asked for is not among what {} has: schedules {}; zero {}; recompute {}; leave one "
      "of them free",
      request.profile.name, fmt::join(framework.schedules, ", "), fmt::join(framework.zero, ", "),
      fmt::join(recompute, ", "));
}

/// What tp must divide.
std::int64_t common_divisor(const ModelShape& model) {
  return std::gcd(std::gcd(model.heads, model.kv_heads), model.ffn);
}

std::string tensor_text(const PlanRequest& request) {
  const ModelShape& model = request.model;
  const std::int64_t common = common_divisor(model);
  std::vector<std::int64_t> valid;
  for (std::int64_t tp = 1; tp <= common; ++tp) {
    if (common % tp == 0 && request.devices % tp == 0) valid.push_back(tp);
  }
  return fmt::format(
      "tp{} with heads = {}, kv_heads = {} and ffn = {}: must divide all three, and the devices; "
      "use one of tp = {}",
      request.limits.tp == 0 ? "" : fmt::format(" = {}", request.limits.tp), model.heads,
      model.kv_heads, model.ffn, fmt::join(valid, ", "));
}

/// The least dp that the model and the framework's rules leave.
std::int64_t least_replicas(const PlanRequest& request) {
  const PlanSpace space(request);
  const FrameworkRules& framework = framework_rules(request.profile.name);
  std::int64_t least = request.devices;
  for (const Degrees& degrees : space.degrees()) {
    const bool is_cut = !broken_by_degrees(request, framework, degrees) &&
                        !broken_by_stages(request.model, framework, degrees.pp, 1);
    if (is_cut) least = std::min<std::int64_t>(least, degrees.dp);
  }
  return least;
}

std::string batch_text(const PlanRequest& request) {
  const std::int64_t replicas = least_replicas(request);
  const std::int64_t micro_batch = std::max<std::int64_t>(request.limits.micro_batch, 1);
  return fmt::format(
      "global batch = {} on {} devices: micro-batch x dp must divide it, and tp x cp x pp of this "
      "model as {} runs it leaves dp = {} or more; use a global batch of {}, or another number "
      "of devices",
      request.global_batch, request.devices, request.profile.name, replicas,
      nearest_multiples(request.global_batch, replicas * micro_batch));
}

std::string rule_text(const PlanRequest& request, PlanRule rule) {
  switch (rule) {
    case PlanRule::kTensor:
      return tensor_text(request);
    case PlanRule::kContext:
      return fmt::format(
          "length = {}: 2 cp must divide it{}; use a length of {}", request.seq,
          request.limits.cp == 0 ? "" : fmt::format(", cp = {}", request.limits.cp),
          nearest_multiples(request.seq, std::int64_t{2} * std::max(request.limits.cp, 2)));
    case PlanRule::kStages:
      return fmt::format("{} layers: each stage needs a layer{}; use pp x chunks of {} or less",
                         request.model.layers,
                         framework_rules(request.profile.name).needs_equal_stages
                             ? " and as many as the others"
                             : "",
                         request.model.layers);
    case PlanRule::kBatch:
      return batch_text(request);
    case PlanRule::kMicroBatches:
      return fmt::format(
          "global batch = {}: schedule {} needs pp micro-batches or more (zb-v 2 pp); use a larger "
          "batch, a smaller pp, or 1f1b",
          request.global_batch, request.limits.schedule);
    case PlanRule::kSequence:
      return fmt::format(
          "length = {}: with sequence parallelism tp must divide micro-batch x length / cp; use a "
          "length of {}, or sp = 0",
          request.seq, nearest_multiples(request.seq, std::max(request.limits.tp, 2)));
    default:
      return fmt::format("every layout breaks a rule, most late: {}; leave more choices free",
                         plan_rule_text(rule));
  }
}

}  // namespace

std::string impossible_because(const PlanRequest& request, const Plan& plan) {
  const int tp = request.limits.tp;
  const bool repeats = framework_rules(request.profile.name).repeats_kv_heads;
  if (tp != 0 && !repeats && common_divisor(request.model) % tp != 0) return tensor_text(request);
  const PlanSpace space(request);
  if (space.degrees().empty()) return no_degrees(request);
  if (space.num_layouts() == 0) return no_choices(request);
  // The rule that was met last: what it refused had passed all others.
  for (std::size_t i = kNumPlanRules; i-- > 0;) {
    if (plan.rejected.at(i) > 0) return rule_text(request, static_cast<PlanRule>(i));
  }
  return "the search was stopped before it found a layout";
}

}  // namespace trireme
