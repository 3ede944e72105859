// A plan for scripts.
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "trireme/base/csv.h"
#include "trireme/base/units.h"
#include "trireme/cli/plan_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(value);
}

Json request_json(const PlanRequest& request) {
  return {{"model", request.model_name},
          {"parameters", request.model.parameters()},
          {"flops_per_token", request.model.flops_per_token(request.seq)},
          {"cluster", request.cluster.name},
          {"framework", request.profile.name},
          {"devices", request.devices},
          {"device_bytes", whole(request.cluster.device.memory_bytes)},
          {"global_batch", request.global_batch},
          {"seq", request.seq},
          {"precision", precision_name(request.precision)}};
}

Json stages_json(const PlannedLayout& planned) {
  Json stages = Json::array();
  for (const StageKinds& kinds : planned.stages) {
    Json stage = Json::object();
    for (const KindAmount& kind : kinds) stage[std::string(kind.kind)] = whole(kind.bytes);
    stages.push_back(std::move(stage));
  }
  return stages;
}

Json seconds_json(const StepSeconds& seconds) {
  return {{"compute", seconds.compute},
          {"bubble", seconds.bubble},
          {"tp", seconds.tp},
          {"cp", seconds.cp},
          {"pp", seconds.pp},
          {"dp", seconds.dp},
          {"optimizer", seconds.optimizer},
          {"fixed", seconds.fixed}};
}

Json layout_json(const PlanRequest& request, const PlannedLayout& planned, std::string why) {
  const Workload& workload = planned.workload;
  const StepSeconds& seconds = planned.estimate.seconds;
  Json json = {{"layout", layout_text(workload.layout, workload.batch)},
               {"micro_batches", workload.num_micro_batches()},
               {"fits", spare_bytes(request, planned) >= 0},
               {"needed_bytes", whole(planned.needed_bytes)},
               {"bytes_per_stage", stages_json(planned)},
               {"bytes_from_program", planned.is_from_program},
               {"step_seconds", planned.step_seconds()},
               {"seconds", seconds_json(seconds)},
               {"tokens_per_second_per_gpu", planned.tokens_per_second_per_device()},
               {"mfu_full", mfu_full(planned, request.cluster)},
               {"mfu_causal", mfu_causal(planned, request.cluster)},
               {"bubble_seconds", seconds.bubble},
               {"exposed_seconds",
                {{"dp", seconds.dp}, {"tp", seconds.tp}, {"pp", seconds.pp}, {"cp", seconds.cp}}}};
  if (request.cluster.is_cpu) {
    json["threads_per_rank"] = planned.threads_per_rank;
    json["machine_bytes"] = whole(planned.machine_bytes);
  }
  json["band"] = planned.high_seconds > 0 ? Json::array({planned.low_seconds, planned.high_seconds})
                                          : Json(nullptr);
  json["why"] = std::move(why);
  return json;
}

Json rejected_json(const Plan& plan) {
  Json rejected = Json::array();
  for (std::size_t i = 0; i < kNumPlanRules; ++i) {
    if (plan.rejected.at(i) == 0) continue;
    rejected.push_back(
        {{"rule", plan_rule_text(static_cast<PlanRule>(i))}, {"count", plan.rejected.at(i)}});
  }
  return rejected;
}

Json what_if_json(const WhatIf& each) {
  Json json = {{"change", each.change}, {"speedup", each.speedup}, {"layout", nullptr}};
  if (each.best)
    json["layout"] = layout_text(each.best->workload.layout, each.best->workload.batch);
  return json;
}

Json explanation_json(const Plan& plan, const Explanation& explanation) {
  Json json = {{"state_bytes", whole(explanation.whole_state_bytes)},
               {"sequence_bytes", whole(explanation.sequence_bytes)},
               {"most_replicas", explanation.most_replicas},
               {"binding", explanation.binding},
               {"changes", Json::array()},
               {"runner_up", Json::array()}};
  for (const WhatIf& each : explanation.changes) json["changes"].push_back(what_if_json(each));
  json["tp_outside_node"] =
      explanation.tp_outside ? what_if_json(*explanation.tp_outside) : Json(nullptr);
  if (plan.layouts.size() > 1) {
    for (const WaterfallTerm& term : waterfall(plan.layouts[0], plan.layouts[1])) {
      json["runner_up"].push_back({{"term", term.name}, {"best", term.from}, {"other", term.to}});
    }
  }
  return json;
}

Json goodput_json(const FailureModel& failures) {
  const double interval = daly_interval_seconds(failures);
  return {{"interval_seconds", interval},
          {"young_interval_seconds", young_interval_seconds(failures)},
          {"goodput", goodput_share(failures, interval)}};
}

}  // namespace

std::string plan_json(const PlanRequest& request, const Plan& plan, const PlanQuestions& questions,
                      const std::optional<Explanation>& explanation) {
  Json json = {{"request", request_json(request)}, {"searched", plan.searched},
               {"fitting", plan.num_fitting},      {"not_priced", plan.not_priced},
               {"stopped", plan.is_stopped},       {"rejected", rejected_json(plan)},
               {"plans", Json::array()},           {"nearest", nullptr}};
  constexpr double kHour = 3600;
  for (const PlannedLayout& each : plan.layouts) {
    const PlannedLayout& best = plan.layouts.front();
    Json one = layout_json(request, each,
                           &each == &best ? "the fastest that fits" : why_slower(best, each));
    if (questions.tokens > 0)
      one["gpu_hours"] = questions.tokens / each.tokens_per_second_per_device() / kHour;
    json["plans"].push_back(std::move(one));
  }
  if (plan.nearest) {
    const Workload& nearest = plan.nearest->workload;
    json["nearest"] = {{"layout", layout_text(nearest.layout, nearest.batch)},
                       {"needed_bytes", whole(plan.nearest->needed_bytes)},
                       {"missing_bytes", whole(-spare_bytes(request, *plan.nearest))}};
  }
  if (!plan.pareto.empty()) {
    json["pareto"] = Json::array();
    for (const PlannedLayout& each : plan.pareto) {
      json["pareto"].push_back(layout_json(request, each, ""));
    }
  }
  if (explanation) json["explanation"] = explanation_json(plan, *explanation);
  if (questions.failures) json["goodput"] = goodput_json(*questions.failures);
  return json.dump(1) + "\n";
}

std::string plan_csv(const PlanRequest& request, std::span<const PlannedLayout> layouts) {
  std::string text =
      csv_line({"model", "gpus", "gbs", "seq", "precision", "layout", "step_s", "tok_s_gpu", "mfu",
                "mfu_causal", "bubble_s", "tp_s", "cp_s", "pp_s", "dp_s", "peak_mem_gib"});
  for (const PlannedLayout& each : layouts) {
    const StepSeconds& seconds = each.estimate.seconds;
    std::vector<std::string> cells = {request.model_name,
                                      fmt::format("{}", request.devices),
                                      fmt::format("{}", request.global_batch),
                                      fmt::format("{}", request.seq),
                                      std::string(precision_name(request.precision)),
                                      layout_text(each.workload.layout, each.workload.batch)};
    for (const double number :
         {each.step_seconds(), each.tokens_per_second_per_device(), mfu_full(each, request.cluster),
          mfu_causal(each, request.cluster), seconds.bubble, seconds.tp, seconds.cp, seconds.pp,
          seconds.dp, each.needed_bytes / kGib}) {
      cells.push_back(fmt::format("{:.6g}", number));
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace trireme
