#include "trireme/cli/plan_page.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cli/step_report.h"
#include "trireme/program/build.h"
#include "trireme/report/bars_svg.h"
#include "trireme/report/html_report.h"
#include "trireme/report/waterfall_svg.h"
#include "trireme/simulate/layout_price.h"

namespace trireme {
namespace {

/// Bars of more layouts are not compared by eye.
constexpr std::size_t kMostBars = 20;

/// Kinds of memory, what stays first, in the colours of the memory picture of a step.
constexpr std::array<std::pair<std::string_view, std::size_t>, 10> kMemoryKinds = {
    {{"parameters", 0},
     {"master", 1},
     {"optimizer", 1},
     {"moments", 2},
     {"gradients", 3},
     {"packed", 4},
     {"workspace", 5},
     {"communication", 6},
     {"activations", 7},
     {"logits", 8}}};
constexpr std::size_t kContextColour = 9;

/// "tp 2+sp, pp 4, dp 16": degrees of 1 are left out.
std::string short_name(const PlannedLayout& planned) {
  const Layout& layout = planned.workload.layout;
  std::string name;
  for (const auto& [axis, degree] : {std::pair("tp", layout.tp), std::pair("cp", layout.cp),
                                     std::pair("pp", layout.pp), std::pair("dp", layout.dp)}) {
    if (degree == 1) continue;
    name += fmt::format("{}{} {}{}", name.empty() ? "" : ", ", axis, degree,
                        std::string_view(axis) == "tp" && layout.sp ? "+sp" : "");
  }
  return name.empty() ? "one device" : name;
}

std::string numbered_name(std::size_t index, const PlannedLayout& planned) {
  return fmt::format("{}: {}", index + 1, short_name(planned));
}

HtmlSection ranking_section(const PlanRequest& request, const Plan& plan,
                            const PlanQuestions& questions) {
  PlanTable times = times_table(request, plan.layouts, questions);
  const MemoryUnit unit = memory_unit(request, plan.layouts);
  times.header.insert(times.header.end(), {std::string(unit.name), "spare"});
  for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
    const PlannedLayout& each = plan.layouts[i];
    times.rows[i].push_back(fmt::format("{:.1f}", counted_bytes(request, each) / unit.bytes));
    times.rows[i].push_back(fmt::format("{:.1f}", spare_bytes(request, each) / unit.bytes));
  }
  const std::string_view of_site =
      request.cluster.is_cpu
          ? "MFU counts the full square of attention, causal half of it. Memory is that of all "
            "ranks together."
          : "\"8 of 10\" is where the step of eight in ten published runs lies, given this "
            "prediction. MFU counts the full square of attention, causal half of it. Memory is "
            "that of the fullest rank.";
  return {
      .heading = "Layouts, fastest first",
      .text = fmt::format(
          "tp, cp, pp and dp are the degrees of tensor, context, pipeline and data parallelism "
          "(+sp: with sequence parallelism); mbs sequences in a micro-batch, m micro-batches in a "
          "step. {}",
          of_site),
      .table = {.header = std::move(times.header), .rows = std::move(times.rows), .marked_row = 0}};
}

HtmlSection runner_up_section(const Plan& plan) {
  const PlannedLayout& best = plan.layouts[0];
  const PlannedLayout& next = plan.layouts[1];
  StepChange change{.title = "from the best layout to the runner-up",
                    .from_name = numbered_name(0, best),
                    .to_name = numbered_name(1, next),
                    .from_seconds = best.step_seconds()};
  for (const WaterfallTerm& term : waterfall(best, next))
    change.changes.emplace_back(term.name, term.change());
  return {.heading = "Why the runner-up loses",
          .text = fmt::format("{}. Each bar begins where the one above ends: to the right, longer; "
                              "to the left, shorter.",
                              why_slower(best, next)),
          .svg = change_svg(change)};
}

std::string first_ones(const Plan& plan) {
  return plan.layouts.size() > kMostBars ? fmt::format(" The first {} are drawn.", kMostBars) : "";
}

std::span<const PlannedLayout> drawn(const Plan& plan) {
  return std::span(plan.layouts).first(std::min(plan.layouts.size(), kMostBars));
}

HtmlSection seconds_section(const Plan& plan) {
  BarsPicture picture{.title = "seconds of a step", .unit = "s"};
  for (const WaterfallTerm& term : waterfall(plan.layouts[0], plan.layouts[0]))
    picture.kinds.push_back({std::string(term.name), picture.kinds.size()});
  for (std::size_t i = 0; i < drawn(plan).size(); ++i) {
    const PlannedLayout& each = plan.layouts[i];
    Bar& bar = picture.bars.emplace_back(Bar{.name = numbered_name(i, each),
                                             .amounts = {},
                                             .note = fmt::format("{:.3g} s", each.step_seconds())});
    for (const WaterfallTerm& term : waterfall(each, each)) bar.amounts.push_back(term.from);
  }
  return {.heading = "What a step waits for",
          .text =
              "Predicted seconds: computation, the bubble of the pipeline, and communication "
              "that nothing hides, by axis." +
              first_ones(plan),
          .svg = bars_svg(picture)};
}

Bar memory_bar(const MemoryUnit& unit, std::size_t index, const PlannedLayout& planned) {
  Bar bar{.name = numbered_name(index, planned),
          .amounts = {},
          .note = unit.text_of(planned.needed_bytes)};
  if (planned.machine_bytes > planned.needed_bytes)
    bar.note += fmt::format(", all {}", unit.text_of(planned.machine_bytes));
  double rest = planned.needed_bytes;
  for (const auto& [name, colour] : kMemoryKinds) {
    const double bytes = kind_bytes(fullest_stage(planned), {name});
    bar.amounts.push_back(bytes / unit.bytes);
    rest -= bytes;
  }
  bar.amounts.push_back(std::max(rest, 0.0) / unit.bytes);
  return bar;
}

HtmlSection memory_section(const PlanRequest& request, const Plan& plan) {
  const MemoryUnit unit = memory_unit(request, plan.layouts);
  BarsPicture picture{.title = "memory of the fullest rank, by kind",
                      .unit = std::string(unit.name)};
  if (!request.cluster.is_cpu) {
    const double has = request.cluster.device.memory_bytes;
    picture.limit = has / unit.bytes;
    picture.limit_name = fmt::format("a device has {}", unit.text_of(has));
  }
  for (const auto& [name, colour] : kMemoryKinds)
    picture.kinds.push_back({std::string(name), colour});
  picture.kinds.push_back({"context and communicators", kContextColour});
  for (std::size_t i = 0; i < drawn(plan).size(); ++i)
    picture.bars.push_back(memory_bar(unit, i, plan.layouts[i]));
  std::string text = plan.layouts.front().is_from_program
                         ? "Of the placed programs that would run, to the byte."
                         : "In closed form.";
  if (request.cluster.is_cpu) {
    text += fmt::format(" The ranks share the machine's {}; \"all\" is what they need together.",
                        MemoryUnit().text_of(request.machine_bytes()));
  }
  return {.heading = "What fills the memory",
          .text = text + first_ones(plan),
          .svg = bars_svg(picture)};
}

HtmlSection counts_section(const Plan& plan) {
  HtmlTable table{.header = {"layouts", "what becomes of them"}, .rows = {}};
  table.rows.push_back({format_count(plan.num_fitting), "fit"});
  for (std::size_t i = 0; i < kNumPlanRules; ++i) {
    if (plan.rejected.at(i) == 0) continue;
    table.rows.push_back(
        {format_count(plan.rejected.at(i)),
         fmt::format("break the rule that {}", plan_rule_text(static_cast<PlanRule>(i)))});
  }
  table.rows.push_back({format_count(plan.searched), "searched"});
  return {.heading = "What was searched", .table = std::move(table)};
}

HtmlSection texts_section(const Plan& plan) {
  HtmlTable table{.header = {"#", "layout", "against the best"}, .rows = {}};
  for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
    const PlannedLayout& each = plan.layouts[i];
    table.rows.push_back({fmt::format("{}", i + 1),
                          layout_text(each.workload.layout, each.workload.batch),
                          i == 0 ? "the fastest" : why_slower(plan.layouts[0], each)});
  }
  return {.heading = "The layouts as --layout takes them",
          .text = "For trireme train and trireme simulate.",
          .table = std::move(table)};
}

std::string subtitle_of(const PlanRequest& request) {
  std::string text = request_text(request);
  text.pop_back();
  text.replace(text.find('\n'), 1, "; ");
  return text;
}

std::vector<std::pair<std::string, std::string>> facts_of(const PlanRequest& request,
                                                          const Plan& plan) {
  const PlannedLayout& best = plan.layouts.front();
  std::vector<std::pair<std::string, std::string>> facts = {
      {"best layout", short_name(best)}, {"step", fmt::format("{:.3g} s", best.step_seconds())}};
  if (best.high_seconds > 0)
    facts.emplace_back("in 8 of 10 runs",
                       fmt::format("{:.3g} to {:.3g} s", best.low_seconds, best.high_seconds));
  const bool is_machine = request.cluster.is_cpu;
  facts.emplace_back(is_machine ? "tokens/s/core" : "tokens/s/GPU",
                     format_count(static_cast<std::int64_t>(best.tokens_per_second_per_device())));
  facts.emplace_back("MFU (full attention)",
                     fmt::format("{:.1f} %", 100 * mfu_full(best, request.cluster)));
  const double counted = counted_bytes(request, best);
  facts.emplace_back(is_machine ? "memory of all ranks" : "memory of the fullest rank",
                     fmt::format("{} of {}", memory_unit(request, plan.layouts).text_of(counted),
                                 MemoryUnit().text_of(counted + spare_bytes(request, best))));
  return facts;
}

/// What is drawn of the best layout's step, and whose program it is.
std::string step_text(const PlanRequest& request, const PlannedStep& step) {
  std::string text = "The best layout on a virtual clock, instruction by instruction. ";
  if (!request.is_for_trireme()) {
    text +=
        fmt::format("The program is Trireme's: {} runs the same layout in an order of its own. ",
                    request.profile.name);
  }
  if (step.micro_batches < step.of) {
    text += fmt::format(
        "To stay readable the step has the first {} of {} micro-batches; the others repeat "
        "them, so that of the whole step bubble and optimizer are a smaller share. ",
        step.micro_batches, step.of);
  }
  return text;
}

/// What trireme simulate shows of the best layout; nothing but why where it has no program.
std::vector<HtmlSection> step_sections(const PlanRequest& request, const PlannedLayout& best) {
  constexpr std::int64_t kMostInstructions = 250'000;  // about a second
  std::vector<HtmlSection> sections;
  std::string text;
  try {
    const PlannedStep step = planned_step(request, best, kMostInstructions);
    const int threads = best.threads_per_rank;  // 0: ranks have devices of their own
    sections = StepReport(request.model_name, request.cluster,
                          simulate_step(step.build, threads, request.cluster), threads)
                   .sections({});
    text = step_text(request, step);
  } catch (const UsageError& error) {
    return {{.heading = "Timeline",
             .text = fmt::format("Trireme has no program for the best layout: {}", error.what())}};
  }
  sections.front().heading = "The best layout: timeline";
  sections.front().text = text + sections.front().text;
  return sections;
}

}  // namespace

PlannedStep planned_step(const PlanRequest& request, const PlannedLayout& planned,
                         std::int64_t most_instructions) {
  if (!request.spec) {
    throw UsageError(
        fmt::format("[plan] model {}: is known by its sizes alone; name a model of models/",
                    request.model_name));
  }
  if (request.precision != ComputePrecision::kFp32 &&
      request.precision != ComputePrecision::kBf16) {
    throw UsageError(fmt::format("[plan] precision = {}: must be bf16 or fp32; use bf16",
                                 precision_name(request.precision)));
  }
  PlannedStep step{.build = build_request(request, planned.workload),
                   .micro_batches = planned.workload.num_micro_batches(),
                   .of = planned.workload.num_micro_batches()};
  const Layout& layout = step.build.layout;
  check_layout(step.build.spec, layout, step.build.batch);
  const int ranks = request.cluster.is_cpu ? layout.world() : layout.pp;
  const std::int64_t all = ranks * build_train(step.build).num_instructions();
  const std::int64_t full = 2 * std::int64_t{layout.pp};
  const std::int64_t allowed = step.of * most_instructions / all;
  step.micro_batches = std::min(step.of, std::max(full, allowed / full * full));
  step.build.batch.global_batch = step.micro_batches * step.build.batch.micro_batch * layout.dp;
  return step;
}

std::string plan_html(const PlanRequest& request, const Plan& plan, const PlanQuestions& questions,
                      const std::optional<Explanation>& explanation) {
  HtmlReport page{
      .title = fmt::format("{} on {} {} of {}", request.model_name, request.devices,
                           request.cluster.is_cpu ? "ranks" : "devices", request.cluster.name),
      .subtitle = subtitle_of(request),
      .facts = facts_of(request, plan),
      .sections = {ranking_section(request, plan, questions)}};
  if (plan.layouts.size() > 1) page.sections.push_back(runner_up_section(plan));
  page.sections.push_back(seconds_section(plan));
  page.sections.push_back(memory_section(request, plan));
  if (explanation) {
    page.sections.push_back(
        {.heading = "Why this layout", .plain = explanation_text(request, plan, *explanation)});
  }
  for (HtmlSection& section : step_sections(request, plan.layouts.front()))
    page.sections.push_back(std::move(section));
  page.sections.push_back(texts_section(plan));
  page.sections.push_back(counts_section(plan));
  return html_report(page);
}

}  // namespace trireme
