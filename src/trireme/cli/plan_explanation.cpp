// The explanation of a plan and the sweep, as text.
#include <cmath>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/cli/plan_text.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

std::string text_of(const PlannedLayout& planned) {
  return layout_text(planned.workload.layout, planned.workload.batch);
}

std::string machine_fit_text(const Plan& plan, const PlanRequest& request, const Explanation& why) {
  return fmt::format(
      "1. Does it fit? Parameters, gradients and optimizer of a replica are {:.3g} GiB, and a "
      "sequence of {} tokens keeps {:.3g} GiB for its backward pass. The ranks share {:.1f} GiB.\n"
      "   {} layouts fit, {} do not; the best one leaves {:.1f} GiB free.\n",
      why.whole_state_bytes / kGib, request.seq, why.sequence_bytes / kGib, why.device_bytes / kGib,
      format_count(plan.num_fitting),
      format_count(plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram))),
      spare_bytes(request, plan.layouts.front()) / kGib);
}

std::string fit_text(const PlanRequest& request, const Plan& plan, const Explanation& why) {
  const double per_device = why.whole_state_bytes / kGib;
  const double has = why.device_bytes / kGib;
  const PlannedLayout& best = plan.layouts.front();
  std::string text = fmt::format(
      "1. Does it fit? Parameters, gradients and optimizer are {:.1f} GiB, and a sequence of {} "
      "tokens keeps {:.1f} GiB for its backward pass. A device has {:.1f} GiB, of which context "
      "and "
      "communicators take {:.1f}.\n",
      per_device, request.seq, why.sequence_bytes / kGib, has, why.fixed_bytes / kGib);
  const auto parts = static_cast<std::int64_t>(
      std::ceil(why.whole_state_bytes / (why.device_bytes - why.fixed_bytes)));
  text +=
      parts <= 1
          ? "   One device could hold the state alone: cutting it is for activations and time.\n"
          : fmt::format(
                "   The state alone needs {} devices: tp x pp, or shards of ZeRO, of {} or "
                "more.\n",
                parts, parts);
  const auto too_large = plan.rejected.at(static_cast<std::size_t>(PlanRule::kMemory)) +
                         plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram));
  text += fmt::format(
      "   {} layouts fit, {} do not; the best one leaves {:.1f} GiB free on its fullest rank.\n",
      format_count(plan.num_fitting), format_count(too_large),
      (why.device_bytes - best.needed_bytes) / kGib);
  return text;
}

std::string batch_text(const PlanRequest& request, const Plan& plan, const Explanation& why) {
  const Workload& best = plan.layouts.front().workload;
  return fmt::format(
      "2. Does it reach the global batch? {} sequences allow up to {} replicas; the best one has "
      "dp "
      "= {} x {} micro-batches of {} = {}, {} tokens a step.\n",
      request.global_batch, why.most_replicas, best.layout.dp, best.num_micro_batches(),
      best.batch.micro_batch, request.global_batch, format_count(best.batch.tokens_per_step()));
}

std::string tp_text(const PlanRequest& request, const Plan& plan, const Explanation& why) {
  const PlannedLayout& best = plan.layouts.front();
  const int tp = best.workload.layout.tp;
  const int node = request.cluster.node_devices;
  std::string text;
  if (tp == 1) {
    text = "   tp = 1: the rest is cut otherwise, and no layer waits for another rank.\n";
  } else if (tp <= node) {
    text = fmt::format(
        "   tp = {} stays in a node of {}: its traffic is on the path of each layer, "
        "{:.3g} s of the step.\n",
        tp, node, best.estimate.seconds.tp);
  } else {
    text = fmt::format("   tp = {} leaves the node of {}.\n", tp, node);
  }
  if (!why.tp_outside || !why.tp_outside->best || tp > node) return text;
  const PlannedLayout& outside = *why.tp_outside->best;
  text += fmt::format(
      "   The best layout with {}, over the network between nodes ({:.0f} GB/s a device against "
      "{:.0f} inside), would take {:.3g} s a step, {:.1f} times as long, of which tp {:.3g} s{}.\n",
      why.tp_outside->change,
      request.cluster.nics * request.cluster.nic_bytes_per_second * request.cluster.nic_efficiency /
          node / 1e9,
      request.cluster.link_bytes_per_second * request.cluster.link_efficiency / 1e9,
      outside.step_seconds(), outside.step_seconds() / best.step_seconds(),
      outside.estimate.seconds.tp,
      outside.needed_bytes > why.device_bytes ? " (and it does not fit)" : "");
  return text;
}

std::string waterfall_text(const PlannedLayout& best, const PlannedLayout& next) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](std::string_view name, double from, double to) {
    rows.push_back({std::string(name), fmt::format("{:.4f}", from), fmt::format("{:.4f}", to),
                    fmt::format("{:+.4f}", to - from)});
  };
  for (const WaterfallTerm& term : waterfall(best, next)) {
    if (term.from > 0 || term.to > 0) add(term.name, term.from, term.to);
  }
  add("step", best.step_seconds(), next.step_seconds());
  return text_table({"seconds of a step", "1", "2", "change"}, rows);
}

std::string changes_text(const PlannedLayout& best, const Explanation& why) {
  std::string text = "What would change:\n";
  for (const WhatIf& each : why.changes) {
    if (!each.best) {
      text += fmt::format("   {}: nothing would fit\n", each.change);
      continue;
    }
    const bool is_same = text_of(*each.best) == text_of(best);
    text +=
        fmt::format("   {}: {:+.1f} % tokens/s with {}\n", each.change, 100 * (each.speedup - 1),
                    is_same ? "the same layout" : text_of(*each.best));
  }
  return text;
}

std::string run_text(const PublishedRun& run) {
  return fmt::format("dp {} tp {} pp {} zero {} mbs {}", run.layout.dp, run.layout.tp,
                     run.layout.pp, run.layout.zero, run.micro_batch);
}

std::string short_text(const PlannedLayout& planned) {
  const Layout& layout = planned.workload.layout;
  return fmt::format("dp {} tp {} pp {} zero {} mbs {}{}", layout.dp, layout.tp, layout.pp,
                     layout.zero, planned.workload.batch.micro_batch,
                     layout.recompute == Recompute::kNone ? "" : " recompute");
}

std::string rate(double tokens_per_second) {
  return format_count(static_cast<std::int64_t>(tokens_per_second));
}

}  // namespace

std::string explanation_text(const PlanRequest& request, const Plan& plan,
                             const Explanation& explanation) {
  const PlannedLayout& best = plan.layouts.front();
  const bool is_machine = request.cluster.is_cpu;
  std::string text = is_machine ? machine_fit_text(plan, request, explanation)
                                : fit_text(request, plan, explanation);
  text += batch_text(request, plan, explanation);
  text += fmt::format("3. Is it fastest? What holds it back is {}.\n", explanation.binding);
  if (!is_machine) text += tp_text(request, plan, explanation);
  if (plan.layouts.size() > 1) {
    const PlannedLayout& next = plan.layouts[1];
    text += fmt::format("   The runner-up loses, {}:\n", why_slower(best, next));
    text += waterfall_text(best, next);
  }
  return text + changes_text(best, explanation);
}

std::string sweep_text(std::span<const SweepCell> cells) {
  std::vector<std::vector<std::string>> rows;
  for (const SweepCell& cell : cells) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {cell.model, fmt::format("{}", cell.nodes)};
    row.push_back(cell.best ? short_text(*cell.best) : "nothing fits");
    row.push_back(cell.best ? rate(cell.best->tokens_per_second_per_device()) : "-");
    row.push_back(cell.published ? run_text(*cell.published) : "-");
    row.push_back(cell.published ? rate(cell.published->tokens_per_second_per_device) : "-");
    row.push_back(cell.published_as ? rate(cell.published_as->tokens_per_second_per_device())
                                    : "-");
    row.push_back(cell.chosen
                      ? fmt::format("{:.3f}", cell.chosen->tokens_per_second_per_device /
                                                  cell.published->tokens_per_second_per_device)
                      : "-");
  }
  return text_table({"model", "nodes", "best layout, planned", "tok/s/GPU", "best published run",
                     "measured", "predicted", "choice"},
                    rows);
}

}  // namespace trireme
