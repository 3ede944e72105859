// The page of a simulated step.
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/cli/step_report.h"
#include "trireme/report/html_report.h"
#include "trireme/report/memory_svg.h"
#include "trireme/report/shown_timelines.h"
#include "trireme/report/table.h"
#include "trireme/report/timeline_svg.h"
#include "trireme/report/waterfall_svg.h"

namespace trireme {
namespace {

/// Of a picture: some 250 bytes each.
constexpr std::size_t kMostEvents = 6000;

const std::vector<std::string>& categories() {
  static const std::vector<std::string> all = {"forward",   "backward",  "communication",
                                               "recompute", "optimizer", "other"};
  return all;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> StepReport::facts() const {
  const double seconds = simulation_.clock.makespan;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"step", seconds < 1 ? milliseconds_text(seconds) + " ms" : fmt::format("{:.4g} s", seconds)},
      {threads_per_rank_ > 0 ? "tokens/s/rank" : "tokens/s/GPU",
       format_count(static_cast<std::int64_t>(tokens_per_second() / request().layout.world()))}};
  if (const auto share = mfu())
    facts.emplace_back("MFU (full attention)", fmt::format("{:.1f} %", 100 * *share));
  facts.emplace_back("bubble ratio", fmt::format("{:.3f}", bubble_ratio()));
  facts.emplace_back(fmt::format("peak memory, rank {}", rank(fullest_)),
                     format_bytes(memory_[fullest_].peak.bytes));
  facts.emplace_back(threads_per_rank_ > 0 ? "ranks" : "GPUs",
                     fmt::format("{}", request().layout.world()));
  return facts;
}

HtmlSection StepReport::timeline_section(const std::optional<Timeline>& measured) const {
  std::string how =
      "A lane for each stream of each rank. F3 is the forward pass of micro-batch 3, B3 its "
      "backward pass; point at an event for its times. A communication begins when all its "
      "members have begun.";
  if (threads_per_rank_ == 0) {
    how +=
        " Shown are the ranks that are first along dp, cp and tp; all others do the same at the "
        "same time.";
  }
  if (measured) {
    how +=
        " Below, on the same scale, the measured run; there a communication begins when its "
        "rank begins to wait.";
  }
  std::vector<Timeline> timelines = {timeline()};
  if (measured) timelines.push_back(*measured);
  const ShownTimelines shown = shown_timelines(std::move(timelines), kMostEvents);
  if (!shown.left_out.empty())
    how += " " + shown.left_out + " trireme simulate --trace writes all of it.";
  return {.heading = measured ? "Timeline: simulated and measured" : "Timeline",
          .text = how,
          .svg = timeline_svg(shown.timelines, categories())};
}

std::string StepReport::memory_picture() const {
  return memory_svg(memory_[fullest_],
                    {.title = fmt::format("rank {}", rank(fullest_)),
                     .peak_label = "peak of " + peak_text(fullest_),
                     .end_seconds = simulation_.clock.makespan,
                     .limit_bytes = threads_per_rank_ > 0 ? 0 : cluster_.device.memory_bytes});
}

std::vector<HtmlSection> StepReport::sections(const std::optional<Timeline>& measured) const {
  std::vector<HtmlSection> sections = {timeline_section(measured)};
  sections.push_back(
      {.heading = "Memory of the fullest rank",
       .text = "By kind, over the step; the legend has the most of each kind. The table has what "
               "lives at the peak; copies are micro-batches in flight.",
       .svg = memory_picture(),
       .table = {.header = {"live at the peak", "bytes", "copies"}, .rows = live_rows()}});
  sections.push_back(
      {.heading = "Where the step goes",
       .text = "The rank that computes longest: each moment counts as computation if it computes, "
               "else as communication that nothing hides, else as bubble.",
       .svg = waterfall_svg(fmt::format("rank {}", rank(busiest_)), named_terms()),
       .table = {.header = term_header(), .rows = term_rows()}});
  sections.push_back(
      {.heading = "Ranks",
       .text = "memory is what the rank allocates before the first step; live peak is the most of "
               "it that is in use at one moment, as the named instruction begins." +
               (verification_ ? " Programs " + verification_text(*verification_) : ""),
       .table = {.header = {"rank", "seconds busy", "memory", "live peak", "instruction"},
                 .rows = rank_rows()}});
  return sections;
}

std::string StepReport::html(const std::optional<Timeline>& measured) const {
  return html_report({.title = fmt::format("{} on {}: one training step", name_, cluster_.name),
                      .subtitle = subtitle(),
                      .facts = facts(),
                      .sections = sections(measured)});
}

}  // namespace trireme
