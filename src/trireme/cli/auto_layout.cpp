#include "trireme/cli/auto_layout.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cli/machine_file.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/search_progress.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/plan/explain.h"
#include "trireme/plan/machine_plan.h"
#include "trireme/report/table.h"
#include "trireme/train/config_file.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kMinutes = 1;  // as trireme calibrate
constexpr std::size_t kOffered = 3;

fs::path machine_path(const TrainConfig& config) {
  return run_folder(config) / "this-machine.toml";
}

/// The file that is there; empty: none.
std::string known_machine(const TrainConfig& config, const AutoLayoutArguments& arguments) {
  std::error_code error;
  if (!arguments.cluster.empty()) return arguments.cluster;
  return fs::is_regular_file(machine_path(config), error) ? machine_path(config).string() : "";
}

Cluster calibrated(const std::string& path) {
  Cluster cluster = read_cluster(path);
  if (cluster.is_cpu) return cluster;
  throw UsageError(fmt::format(
      "[command line] --cluster {} with --layout auto: must be the machine that trains; "
      "give a file of trireme calibrate, or leave it out",
      safe_text(path)));
}

/// Nothing if it was stopped.
std::optional<Cluster> machine_of(const TrainConfig& config, const AutoLayoutArguments& arguments,
                                  const Session& session) {
  if (const std::string path = known_machine(config, arguments); !path.empty())
    return calibrated(path);
  session.print(
      "--layout auto measures this machine first (--cluster FILE takes a file of "
      "trireme calibrate)\n");
  auto file = measure_this_machine(kMinutes, arguments.stop_signal, session);
  if (!file) return std::nullopt;
  if (arguments.is_dry_run) {
    session.print("a dry run keeps no files: trireme calibrate -o FILE.toml measures to keep\n");
  } else {
    std::error_code error;  // what does not exist then is named when it is written
    fs::create_directories(run_folder(config), error);
    write_machine_file(machine_path(config), *file);
    session.print(fmt::format("wrote {}\n", machine_path(config).string()));
  }
  return cluster_of(std::move(*file));
}

PlanRequest plan_request(const TrainConfig& config, Cluster cluster, bool keeps_micro_batch) {
  const ComputePrecision precision = config.precision.compute == Precision::kBf16
                                         ? ComputePrecision::kBf16
                                         : ComputePrecision::kFp32;
  PlanRequest request{
      .model_name = config.run.name,
      .model = shape_of(config.model.spec),
      .spec = config.model.spec,
      .cluster = std::move(cluster),
      .profile = {},
      .seq = config.batch.seq,
      .global_batch = config.batch.global_batch,
      .precision = precision,
      .takes_fewer = true,
      .trainer = {
          .threads_per_rank = config.ranks.threads_per_rank,
          .bucket_mib = config.layout.bucket_mib,
          .cp_comm = config.layout.cp_comm,
          .reduce = config.precision.reduce == Precision::kBf16 ? DType::kBf16 : DType::kF32,
          .decay_norms = config.optimizer.decay_norms}};
  request.devices = request.cluster.node_devices;
  request.profile = for_precision(read_profile("trireme", request.cluster), precision);
  if (keeps_micro_batch) request.limits.micro_batch = config.batch.micro_batch;
  return request;
}

std::string chosen_text(const Plan& plan) {
  const std::size_t chosen = steadiest(plan);
  if (chosen == 0) return "chosen  1\n";
  return fmt::format(
      "chosen  {}: its ranks and threads meet {} times a step, those of 1 {} times, and "
      "predictions are wrong by {:.1f} %\n",
      chosen + 1, format_count(plan.layouts[chosen].meetings),
      format_count(plan.layouts.front().meetings), 100 * kMedianStepError);
}

std::string offered_text(const PlanRequest& request, const Plan& plan) {
  std::string text = fmt::format(
      "plan    {} layouts of 1 to {} ranks on {} cores ({}) were priced{}; the best of each cut\n",
      format_count(plan.num_fitting +
                   plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram))),
      request.devices, request.cluster.node_devices, request.cluster.file.name,
      plan.not_priced > 0 ? fmt::format(", {} were not", format_count(plan.not_priced)) : "");
  const PlannedLayout& best = plan.layouts.front();
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> reasons;
  for (const PlannedLayout& each : plan.layouts) {
    const std::size_t number = rows.size() + 1;
    rows.push_back({fmt::format("{}", number), milliseconds_text(each.step_seconds()),
                    fmt::format("{} x {}", each.workload.layout.world(), each.threads_per_rank),
                    layout_text(each.workload.layout, each.workload.batch)});
    reasons.push_back(
        fmt::format("{} {}", number,
                    number == 1 ? "has " + largest_term(best) : "is " + why_slower(best, each)));
  }
  return text + text_table({"#", "step ms", "ranks x threads", "layout"}, rows) +
         fmt::format("why     {}\n", fmt::join(reasons, "; ")) + chosen_text(plan);
}

/// Told where the file's machine is not the one that trains.
void note_other_cores(const Cluster& cluster, const Session& session) {
  const int here = num_available_cores();
  if (cluster.node_devices == here) return;
  session.note(fmt::format(
      "{} has {} cores, this process {}: seconds and threads of the plan are those of that machine",
      cluster.file.name, cluster.node_devices, here));
}

/// Nothing if it was stopped.
std::optional<AutoLayout> planned(const TrainConfig& config, const PlanRequest& request,
                                  const AutoLayoutArguments& arguments, const Session& session) {
  SearchProgress progress(session);
  const Plan plan = make_plan(
      request, {.top = kOffered,
                .control = {.progress = [&](std::size_t done,
                                            std::size_t total) { progress.show(done, total); },
                            .stop = &arguments.stop_signal}});
  if (arguments.stop_signal.load() != 0) return std::nullopt;
  if (plan.layouts.empty() && plan.nearest) {
    throw UsageError(fmt::format(
        "[layout] auto: {} bytes are missing on this machine for {}, which needs least; make the "
        "model, the length or the batch smaller",
        format_count(static_cast<std::int64_t>(-spare_bytes(request, *plan.nearest))),
        layout_text(plan.nearest->workload.layout, plan.nearest->workload.batch)));
  }
  if (plan.layouts.empty()) {
    throw UsageError(
        fmt::format("[layout] auto: no layout: {}", impossible_because(request, plan)));
  }
  const PlannedLayout& best = plan.layouts[steadiest(plan)];
  AutoLayout result{
      .config = config, .text = offered_text(request, plan), .step_seconds = best.step_seconds()};
  result.config.layout = best.workload.layout;
  result.config.batch = best.workload.batch;
  result.config = checked(std::move(result.config));
  return result;
}

/// The config with the layout of the run that it continues, where there is one and it still fits
/// the batch.
std::optional<TrainConfig> continued(TrainConfig config, const AutoLayoutArguments& arguments) {
  std::error_code error;
  const fs::path folder = run_folder(config);
  if (config.checkpoint.resume == "never" || !fs::exists(folder / "config.toml", error) ||
      !fs::exists(folder / "checkpoints" / "latest", error))
    return std::nullopt;
  try {  // what cannot be read, or does not fit, is planned anew: any layout resumes
    const TrainConfig before = load_config(folder / "config.toml");
    config.layout = before.layout;
    if (!arguments.keeps_micro_batch) config.batch.micro_batch = before.batch.micro_batch;
    return checked(std::move(config));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<AutoLayout> auto_layout(const TrainConfig& config,
                                      const AutoLayoutArguments& arguments,
                                      const Session& session) {
  if (auto before = continued(config, arguments)) {
    AutoLayout result{.config = std::move(*before),
                      .text =
                          "plan    the run has a checkpoint: it continues with the layout that "
                          "it had (another --layout is taken too)\n"};
    if (const std::string path = known_machine(config, arguments); !path.empty()) {
      const PlanRequest request = plan_request(config, calibrated(path), true);
      result.step_seconds = machine_layout(request, {.model = request.model,
                                                     .layout = result.config.layout,
                                                     .batch = result.config.batch,
                                                     .precision = request.precision})
                                .step_seconds();
    }
    return result;
  }
  auto cluster = machine_of(config, arguments, session);
  if (!cluster) return std::nullopt;
  note_other_cores(*cluster, session);
  const PlanRequest request =
      plan_request(config, std::move(*cluster), arguments.keeps_micro_batch);
  check_request(request);
  return planned(config, request, arguments, session);
}

std::string predicted_and_measured(double predicted_seconds, std::vector<double> step_seconds) {
  TRI_CHECK(!step_seconds.empty());
  const bool has_more = step_seconds.size() > 1;
  if (has_more) step_seconds.erase(step_seconds.begin());
  const auto middle = step_seconds.begin() + std::ssize(step_seconds) / 2;
  std::nth_element(step_seconds.begin(), middle, step_seconds.end());
  return fmt::format("step    {} ms predicted, {} ms measured (median of {}{}): {:+.1f} %",
                     milliseconds_text(predicted_seconds), milliseconds_text(*middle),
                     step_seconds.size(), has_more ? ", without the first" : "",
                     100 * (*middle / predicted_seconds - 1));
}

}  // namespace trireme
