#include "trireme/cli/step_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/cost/estimate.h"
#include "trireme/cost/profile.h"
#include "trireme/cost/workload.h"
#include "trireme/layout/layout.h"
#include "trireme/report/gantt.h"
#include "trireme/report/simulated_timeline.h"
#include "trireme/report/table.h"
#include "trireme/simulate/step_terms.h"

namespace trireme {
namespace {

constexpr int kGanttColumns = 160;
constexpr std::size_t kMostLiveRows = 12;

Workload workload_of(const BuildRequest& request) {
  return {.model = shape_of(request.spec),
          .layout = request.layout,
          .batch = request.batch,
          .precision =
              request.compute == DType::kBf16 ? ComputePrecision::kBf16 : ComputePrecision::kFp32};
}

/// What the compute queues do, as one stream; without trifles that would hide what they precede.
Timeline compute_lanes(const Timeline& timeline) {
  const double column = end_seconds(timeline) / kGanttColumns;
  Timeline compute{.stream_names = {"compute"}};
  for (const TraceEvent& event : timeline.events) {
    const bool is_trifle = event.category == "other" && event.duration_seconds < column;
    if (event.stream == 0 && !is_trifle) compute.events.push_back(event);
  }
  return joined_timeline(compute, column);
}

}  // namespace

StepReport::StepReport(std::string name, Cluster cluster, StepSimulation simulation,
                       int threads_per_rank, std::optional<Verification> verification)
    : name_(std::move(name)),
      cluster_(std::move(cluster)),
      simulation_(std::move(simulation)),
      threads_per_rank_(threads_per_rank),
      verification_(verification) {
  const CoreClock& clock = simulation_.clock;
  for (std::size_t i = 0; i < simulation_.programs.size(); ++i) {
    memory_.push_back(memory_use(simulation_.programs[i], clock.times[i]));
    if (memory_[i].peak.bytes > memory_[fullest_].peak.bytes) fullest_ = i;
  }
  busiest_ = busiest_rank(clock);
  terms_ = step_terms(simulation_);
  if (threads_per_rank_ == 0) {
    const Workload workload = workload_of(request());
    const Profile profile = for_precision(read_profile("trireme", cluster_), workload.precision);
    closed_form_ = estimate(workload, cluster_, profile).seconds;
  }
}

std::string StepReport::subtitle() const {
  const Batch& batch = request().batch;
  return fmt::format("{} on {}: {}, global batch {} x {} tokens, {} micro-batches", name_,
                     cluster_.name, layout_text(request().layout, batch), batch.global_batch,
                     batch.seq, simulation_.programs.front().num_micro_batches);
}

std::string StepReport::peak_text(std::size_t index) const {
  const MemoryPeak& peak = memory_[index].peak;
  return fmt::format("rank {}: {} as {} begins", rank(index), format_bytes(peak.bytes),
                     instruction_text(simulation_.programs[index], peak.position));
}

double StepReport::tokens_per_second() const {
  return static_cast<double>(request().batch.tokens_per_step()) / simulation_.clock.makespan;
}

double StepReport::bubble_ratio() const {
  const std::vector<double>& busy = simulation_.clock.busy;
  const double all = std::accumulate(busy.begin(), busy.end(), 0.0);
  return 1 - all / (simulation_.clock.makespan * static_cast<double>(busy.size()));
}

std::optional<double> StepReport::mfu() const {
  const bool is_bf16 = request().compute == DType::kBf16;
  const double peak =
      is_bf16 ? cluster_.device.peak_flops_per_second : cluster_.device.peak_fp32_flops_per_second;
  if (threads_per_rank_ > 0 || peak <= 0) return std::nullopt;
  return workload_of(request()).model.flops_per_token(request().batch.seq) * tokens_per_second() /
         (peak * request().layout.world());
}

Timeline StepReport::timeline() const {
  return simulated_timeline("simulated", simulation_, memory_);
}

StepReport::Rows StepReport::rank_rows() const {
  Rows rows;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const MemoryPeak& peak = memory_[i].peak;
    rows.push_back({fmt::format("{}", rank(i)), fmt::format("{:.6g}", simulation_.clock.busy[i]),
                    format_bytes(simulation_.placements[i].arena_bytes), format_bytes(peak.bytes),
                    instruction_text(simulation_.programs[i], peak.position)});
  }
  return rows;
}

StepReport::Rows StepReport::live_rows() const {
  const std::vector<LiveBuffer>& live = memory_[fullest_].peak.live;
  Rows rows;
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (i >= kMostLiveRows) {
      rest += live[i].bytes;
      continue;
    }
    rows.push_back({live[i].name, format_bytes(live[i].bytes), fmt::format("{}", live[i].copies)});
  }
  if (rest > 0) {
    rows.push_back({fmt::format("{} others", live.size() - kMostLiveRows), format_bytes(rest), ""});
  }
  return rows;
}

std::vector<std::string> StepReport::term_header() const {
  std::vector<std::string> header = {fmt::format("rank {}", rank(busiest_)), "ms", "%"};
  if (closed_form_) header.emplace_back("closed form, ms");
  return header;
}

StepReport::Rows StepReport::term_rows() const {
  Rows rows;
  const auto add = [&](std::string_view name, double seconds, double closed_form) {
    auto& row = rows.emplace_back(
        std::vector<std::string>{std::string(name), milliseconds_text(seconds),
                                 fmt::format("{:.1f}", 100 * seconds / terms_.total())});
    if (closed_form_) row.push_back(milliseconds_text(closed_form));
  };
  for (const auto& [name, term] : kStepTerms)
    add(name, terms_.*term, closed_form_ ? (*closed_form_).*term : 0);
  add("step", terms_.total(), closed_form_ ? closed_form_->total() : 0);
  return rows;
}

std::vector<std::pair<std::string, double>> StepReport::named_terms() const {
  std::vector<std::pair<std::string, double>> named;
  for (const auto& [name, term] : kStepTerms) named.emplace_back(name, terms_.*term);
  return named;
}

std::string StepReport::text() const {
  const std::vector<std::string> rank_header = {"rank", "seconds busy", "memory", "live peak",
                                                "as begins"};
  std::string text = subtitle() + "\n\n" + text_gantt(compute_lanes(timeline()), kGanttColumns) +
                     "\n" + text_table(rank_header, rank_rows()) + "\nPeak of " +
                     peak_text(fullest_) + "\n" +
                     text_table({"live then", "bytes", "copies"}, live_rows()) + "\n" +
                     text_table(term_header(), term_rows()) + "\n";
  text += fmt::format("step {:.6g} s, {} tokens/s", simulation_.clock.makespan,
                      format_count(static_cast<std::int64_t>(tokens_per_second())));
  if (threads_per_rank_ > 0) {
    text += fmt::format(", {} {} a rank", threads_per_rank_,
                        threads_per_rank_ == 1 ? "thread" : "threads");
  } else {
    text += fmt::format(", {:.1f} tokens/s/GPU on {} GPUs",
                        tokens_per_second() / request().layout.world(), request().layout.world());
  }
  if (const auto share = mfu()) text += fmt::format(", MFU {:.1f} %", 100 * *share);
  text += fmt::format(", bubble ratio {:.3f}\n", bubble_ratio());
  return verification_ ? text + verification_text(*verification_) : text;
}

std::string StepReport::json() const {
  nlohmann::ordered_json peaks = nlohmann::ordered_json::array();
  nlohmann::ordered_json arenas = nlohmann::ordered_json::array();
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    nlohmann::ordered_json live = nlohmann::ordered_json::array();
    for (const LiveBuffer& buffer : memory_[i].peak.live)
      live.push_back({{"buffer", buffer.name}, {"bytes", buffer.bytes}});
    peaks.push_back(
        {{"rank", rank(i)},
         {"bytes", memory_[i].peak.bytes},
         {"instruction", instruction_text(simulation_.programs[i], memory_[i].peak.position)},
         {"live", live}});
    arenas.push_back(simulation_.placements[i].arena_bytes);
    ranks.push_back(rank(i));
  }
  nlohmann::ordered_json json = {{"layout", layout_text(request().layout, request().batch)},
                                 {"ranks", ranks},
                                 {"makespan_seconds", simulation_.clock.makespan},
                                 {"busy_seconds", simulation_.clock.busy},
                                 {"bubble_ratio", bubble_ratio()},
                                 {"peak", peaks},
                                 {"arena_bytes", arenas}};
  if (threads_per_rank_ > 0) json["threads_per_rank"] = threads_per_rank_;
  json["tokens_per_second_per_gpu"] = tokens_per_second() / request().layout.world();
  if (const auto share = mfu()) json["mfu_full"] = *share;
  for (const auto& [name, term] : kStepTerms) json["seconds"][std::string(name)] = terms_.*term;
  if (verification_) {
    json["verified_ranks"] = verification_->num_ranks;
    json["rules"] = verification_->is_whole() ? rule_names() : rule_names(false);
  }
  return json.dump(1) + "\n";
}

std::string StepReport::trace() const {
  Timeline whole = timeline();
  whole.title = subtitle();
  return chrome_trace_json(whole);
}

}  // namespace trireme
