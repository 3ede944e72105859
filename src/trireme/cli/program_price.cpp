#include "trireme/cli/program_price.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/cost/known_models.h"
#include "trireme/plan/program_memory.h"
#include "trireme/simulate/layout_price.h"
#include "trireme/train/run_plan.h"

namespace trireme {
namespace {

BuildRequest request_of(const TrainConfig& config) {
  const auto type = [](Precision precision) {
    return precision == Precision::kBf16 ? DType::kBf16 : DType::kF32;
  };
  return {.spec = config.model.spec,
          .layout = config.layout,
          .batch = config.batch,
          .decay_norms = config.optimizer.decay_norms,
          .compute = type(config.precision.compute),
          .reduce = type(config.precision.reduce)};
}

/// With devices of their own, or on the cores of a machine, as the cluster has it.
StepReport step_report(std::string name, const BuildRequest& request, const RanksConfig& ranks,
                       Cluster cluster) {
  const int num_threads =
      cluster.is_cpu ? threads_per_rank(ranks, cluster.node_devices, request.layout.world()) : 0;
  StepSimulation simulation = simulate_step(request, num_threads, cluster);
  const Verification verification =
      cluster.is_cpu ? verification_of(simulation.programs) : verify_step(simulation);
  return {std::move(name), std::move(cluster), std::move(simulation), num_threads, verification};
}

DType compute_type(const std::string& precision) {
  if (precision == "bf16") return DType::kBf16;
  if (precision == "fp32") return DType::kF32;
  throw UsageError(fmt::format(
      "[command line] --precision {}: must be bf16 or fp32; Trireme computes in these", precision));
}

}  // namespace

StepReport program_report(const TrainConfig& config, const std::string& cluster_name) {
  return step_report(config.run.name, request_of(config), config.ranks, read_cluster(cluster_name));
}

StepReport model_report(const ModelStep& step, const std::string& cluster_name) {
  const std::optional<ModelSpec> spec = known_spec(step.model);
  if (!spec) {
    throw UsageError(fmt::format(
        "[command line] --model {}: no model that Trireme trains; give a models/*.toml or one of "
        "{}",
        step.model, trained_model_names()));
  }
  BuildRequest request{.spec = resolved(*spec),
                       .layout = {},
                       .batch = {.seq = step.seq, .global_batch = step.global_batch},
                       .compute = compute_type(step.precision)};
  parse_layout_text(step.layout, request.layout, request.batch);
  check_layout(request.spec, request.layout, request.batch);
  return step_report(step.model, request, {}, read_cluster(cluster_name));
}

Prediction program_prediction(const PricedCase& row, const Cluster& cluster,
                              const Profile& /*profile*/) {
  const int num_threads = threads_per_rank({}, cluster.node_devices, row.workload.layout.world());
  const ProgramPrice price = price_layout(build_request(row), num_threads, cluster);
  const std::vector<std::int64_t>& bytes = price.arena_bytes;
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  const double busy = *std::max_element(price.busy_seconds.begin(), price.busy_seconds.end());
  Prediction result{
      .step_seconds = price.step_seconds,
      .first_stage_bytes = static_cast<double>(bytes.front()),
      .peak_bytes = static_cast<double>(*std::max_element(bytes.begin(), bytes.end())),
      .fits = all <= cluster.device.memory_bytes * cluster.node_devices,
      .bubble_seconds = std::max(price.step_seconds - busy, 0.0)};
  split_by_kind(price.first_rank_bytes, result);
  return result;
}

}  // namespace trireme
