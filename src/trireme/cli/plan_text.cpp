#include "trireme/cli/plan_text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Three digits, never in powers of ten.
std::string seconds_text(double seconds) {
  return seconds >= 100 ? fmt::format("{:.0f}", seconds) : fmt::format("{:.3g}", seconds);
}

std::string schedule_text(const Layout& layout) {
  if (layout.pp == 1) return "-";
  return layout.chunks == 0 ? layout.schedule
                            : fmt::format("{}:{}", layout.schedule, layout.chunks);
}

std::string band_text(const PlannedLayout& planned) {
  if (planned.high_seconds <= 0) return "-";
  return fmt::format("{}..{}", seconds_text(planned.low_seconds),
                     seconds_text(planned.high_seconds));
}

double device_hours(const PlannedLayout& planned, double tokens) {
  constexpr double kHour = 3600;
  return tokens / planned.tokens_per_second_per_device() / kHour;
}

/// Threads of each rank are a choice where ranks share cores.
std::vector<std::string> times_header(const PlanRequest& request, const PlanQuestions& questions) {
  const bool is_machine = request.cluster.is_cpu;
  std::vector<std::string> header = {"#", "tp", "cp", "pp", "dp"};
  if (is_machine) header.emplace_back("threads");
  header.insert(header.end(), {"mbs", "m", "schedule", "zero", "recompute", "step s"});
  if (!is_machine) header.emplace_back("8 of 10");
  header.insert(header.end(), {is_machine ? "tok/s/core" : "tok/s/GPU", "MFU %", "causal %"});
  if (questions.tokens > 0) header.emplace_back(is_machine ? "core-hours" : "GPU-hours");
  return header;
}

std::string shares_table(const PlanRequest& request, std::span<const PlannedLayout> layouts) {
  const bool is_machine = request.cluster.is_cpu;
  const MemoryUnit unit = memory_unit(request, layouts);
  const auto in_unit = [&](double bytes) { return fmt::format("{:.1f}", bytes / unit.bytes); };
  Rows rows;
  for (const PlannedLayout& each : layouts) {
    const StepSeconds& seconds = each.estimate.seconds;
    const StageKinds& kinds = fullest_stage(each);
    const double parameters = kind_bytes(kinds, {"parameters"});
    const double gradients = kind_bytes(kinds, {"gradients"});
    const double optimizer = kind_bytes(kinds, {"optimizer", "master", "moments"});
    const double activations = kind_bytes(kinds, {"activations", "logits"});
    const double rest = each.needed_bytes - parameters - gradients - optimizer - activations;
    std::vector<std::string>& row = rows.emplace_back();
    row = {fmt::format("{}", rows.size()),
           seconds_text(seconds.compute),
           seconds_text(seconds.bubble),
           seconds_text(seconds.tp),
           seconds_text(seconds.cp),
           seconds_text(seconds.pp),
           seconds_text(seconds.dp),
           seconds_text(seconds.optimizer + seconds.fixed),
           in_unit(parameters),
           in_unit(gradients),
           in_unit(optimizer),
           in_unit(activations),
           in_unit(rest),
           in_unit(each.needed_bytes)};
    if (is_machine) row.push_back(in_unit(each.machine_bytes));
    row.push_back(in_unit(spare_bytes(request, each)));
  }
  std::vector<std::string> header = {"#", "compute s", "bubble", "tp", "cp", "pp", "dp", "rest"};
  header.push_back(fmt::format("params {}", unit.name));
  header.insert(header.end(), {"grads", "optimizer", "activations", "rest", "sum"});
  if (is_machine) header.emplace_back("all ranks");
  header.emplace_back("spare");
  return text_table(header, rows);
}

/// What a profile says to leave free, where a layout does not: kernels and fragments need some too.
std::string margin_text(const PlanRequest& request, std::span<const PlannedLayout> layouts) {
  if (request.cluster.is_cpu) return "";
  const double has = request.cluster.device.memory_bytes;
  const double usable = has * request.profile.usable_share;
  std::vector<std::size_t> tight;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (layouts[i].needed_bytes > usable) tight.push_back(i + 1);
  }
  if (tight.empty()) return "";
  return fmt::format(
      "less than {:.0f} % of the memory is left by {}: --memory-gib {:.1f} keeps a margin\n",
      100 * (1 - request.profile.usable_share), fmt::join(tight, ", "), usable / kGib);
}

}  // namespace

PlanTable times_table(const PlanRequest& request, std::span<const PlannedLayout> layouts,
                      const PlanQuestions& questions) {
  const bool is_machine = request.cluster.is_cpu;
  PlanTable table{.header = times_header(request, questions), .rows = {}};
  for (const PlannedLayout& each : layouts) {
    const Layout& layout = each.workload.layout;
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {fmt::format("{}", table.rows.size()),
           fmt::format("{}{}", layout.tp, layout.sp ? "+sp" : ""), fmt::format("{}", layout.cp),
           fmt::format("{}", layout.pp), fmt::format("{}", layout.dp)};
    if (is_machine) row.push_back(fmt::format("{}", each.threads_per_rank));
    row.insert(row.end(),
               {fmt::format("{}", each.workload.batch.micro_batch),
                fmt::format("{}", each.workload.num_micro_batches()), schedule_text(layout),
                fmt::format("{}", layout.zero), std::string(recompute_name(layout.recompute)),
                seconds_text(each.step_seconds())});
    if (!is_machine) row.push_back(band_text(each));
    row.insert(row.end(),
               {format_count(static_cast<std::int64_t>(each.tokens_per_second_per_device())),
                fmt::format("{:.1f}", 100 * mfu_full(each, request.cluster)),
                fmt::format("{:.1f}", 100 * mfu_causal(each, request.cluster))});
    if (questions.tokens > 0) {
      row.push_back(format_count(static_cast<std::int64_t>(device_hours(each, questions.tokens))));
    }
  }
  return table;
}

MemoryUnit memory_unit(const PlanRequest& request, std::span<const PlannedLayout> layouts) {
  const auto largest = std::max_element(
      layouts.begin(), layouts.end(),
      [](const auto& a, const auto& b) { return a.machine_bytes < b.machine_bytes; });
  const bool is_small = largest != layouts.end() && largest->machine_bytes < 10 * kGib;
  return request.cluster.is_cpu && is_small ? MemoryUnit{"MiB", kMib} : MemoryUnit{};
}

const StageKinds& fullest_stage(const PlannedLayout& planned) {
  const auto total = [](const StageKinds& kinds) {
    double bytes = 0;
    for (const KindAmount& kind : kinds) bytes += kind.bytes;
    return bytes;
  };
  return *std::max_element(planned.stages.begin(), planned.stages.end(),
                           [&](const auto& a, const auto& b) { return total(a) < total(b); });
}

double kind_bytes(const StageKinds& kinds, std::initializer_list<std::string_view> names) {
  double bytes = 0;
  for (const KindAmount& kind : kinds) {
    if (std::find(names.begin(), names.end(), kind.kind) != names.end()) bytes += kind.bytes;
  }
  return bytes;
}

std::string request_text(const PlanRequest& request) {
  std::string text =
      fmt::format("{} ({} parameters), {} sequences of {} tokens a step, {}\n", request.model_name,
                  format_count(request.model.parameters()), request.global_batch, request.seq,
                  precision_name(request.precision));
  if (request.cluster.is_cpu) {
    return text + fmt::format("{} ranks on {} cores that share {:.1f} GiB ({}, {})\n",
                              request.devices, request.cluster.node_devices,
                              request.machine_bytes() / kGib, request.cluster.name,
                              request.cluster.device_name);
  }
  return text + fmt::format("{} devices ({}, {} a node, {:.1f} GiB each), as {} runs it\n",
                            request.devices, request.cluster.name, request.cluster.node_devices,
                            request.cluster.device.memory_bytes / kGib, request.profile.name);
}

std::string layouts_text(const PlanRequest& request, std::span<const PlannedLayout> layouts,
                         const PlanQuestions& questions) {
  const PlanTable times = times_table(request, layouts, questions);
  std::string text = text_table(times.header, times.rows);
  text += fmt::format(
      "\nexposed seconds of a step, and memory of the fullest rank ({})\n",
      layouts.front().is_from_program ? "of the placed program, to the byte" : "closed form");
  text += shares_table(request, layouts) + margin_text(request, layouts) + "\n";
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    text += fmt::format("{:>2}  {}\n", i + 1,
                        layout_text(layouts[i].workload.layout, layouts[i].workload.batch));
  }
  return text;
}

std::string counts_text(const Plan& plan) {
  std::string text = fmt::format("searched {} layouts: {} fit\n", format_count(plan.searched),
                                 format_count(plan.num_fitting));
  for (std::size_t i = 0; i < kNumPlanRules; ++i) {
    if (plan.rejected.at(i) == 0) continue;
    text += fmt::format("  {:>12} broke the rule that {}\n", format_count(plan.rejected.at(i)),
                        plan_rule_text(static_cast<PlanRule>(i)));
  }
  if (plan.not_priced > 0) {
    text += fmt::format("  {:>12} were not priced: {}\n", format_count(plan.not_priced),
                        plan.is_stopped ? "it was stopped" : "the limit of work was reached");
  }
  return text;
}

std::string nearest_text(const PlanRequest& request, const PlannedLayout& nearest) {
  const bool is_machine = request.cluster.is_cpu;
  const double missing = -spare_bytes(request, nearest);
  const double needed = counted_bytes(request, nearest);
  return fmt::format(
      "nothing fits. The least memory is needed by\n    {}\n{:.1f} GiB of {:.1f}: {:.1f} GiB "
      "({} bytes) are missing {}\n",
      layout_text(nearest.workload.layout, nearest.workload.batch), needed / kGib,
      (needed - missing) / kGib, missing / kGib, format_count(static_cast<std::int64_t>(missing)),
      is_machine ? "for all ranks together" : "on the fullest rank");
}

std::string remedy_text(const PlanRequest& request, std::optional<int> nodes) {
  if (request.cluster.is_cpu) return "make the model, the length or the batch smaller\n";
  return nodes ? fmt::format("it would fit on {} nodes\n", *nodes)
               : fmt::format(
                     "no layout fits on up to {} nodes either: make the model, the length or the "
                     "batch smaller\n",
                     64 * request.nodes());
}

std::string goodput_text(const FailureModel& failures, double step_seconds) {
  const double interval = daly_interval_seconds(failures);
  return fmt::format(
      "checkpoints: one every {} of training, or {} steps (Daly 2006; Young 1974: {}); goodput "
      "{:.2f} % of the time with a failure every {}, {} to save{}\n",
      format_seconds(interval),
      format_count(std::max<std::int64_t>(1, static_cast<std::int64_t>(interval / step_seconds))),
      format_seconds(young_interval_seconds(failures)), 100 * goodput_share(failures, interval),
      format_seconds(failures.mtbf_seconds), format_seconds(failures.checkpoint_seconds),
      failures.restart_seconds > 0
          ? fmt::format(" and {} to restart", format_seconds(failures.restart_seconds))
          : "");
}

}  // namespace trireme
