#include "trireme/cli/program_price.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/layout/layout.h"
#include "trireme/plan/program_memory.h"
#include "trireme/report/table.h"
#include "trireme/train/layout_price.h"
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

}  // namespace

std::string program_price(const TrainConfig& config, const std::string& cluster_name,
                          bool is_json) {
  const Cluster cluster = read_cluster(cluster_name);
  const int num_ranks = config.layout.world();
  const int num_threads = threads_per_rank(config.ranks, cluster.node_devices, num_ranks);
  const ProgramPrice price = price_layout(request_of(config), num_threads, cluster);
  const double busy = std::accumulate(price.busy_seconds.begin(), price.busy_seconds.end(), 0.0);
  const double bubble = 1 - busy / (price.step_seconds * num_ranks);
  const std::string layout = layout_text(config.layout, config.batch);
  if (is_json) {
    const nlohmann::ordered_json json = {{"layout", layout},
                                         {"threads_per_rank", num_threads},
                                         {"makespan_seconds", price.step_seconds},
                                         {"busy_seconds", price.busy_seconds},
                                         {"bubble_ratio", bubble},
                                         {"arena_bytes", price.arena_bytes}};
    return json.dump(1) + "\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t rank = 0; rank < price.busy_seconds.size(); ++rank) {
    rows.push_back({fmt::format("{}", rank), fmt::format("{:.6g}", price.busy_seconds[rank]),
                    format_bytes(price.arena_bytes[rank])});
  }
  return fmt::format("{}\n{}", layout, text_table({"rank", "seconds busy", "memory"}, rows)) +
         fmt::format("step {:.6g} s, {} tokens/s, bubble ratio {:.3f}, {} {} a rank\n",
                     price.step_seconds,
                     format_count(static_cast<std::int64_t>(
                         static_cast<double>(config.batch.tokens_per_step()) / price.step_seconds)),
                     bubble, num_threads, num_threads == 1 ? "thread" : "threads");
}

Prediction program_prediction(const PricedCase& row, const Cluster& cluster,
                              const Profile& /*profile*/) {
  const int num_threads = threads_per_rank({}, cluster.node_devices, row.workload.layout.world());
  const ProgramPrice price = price_layout(build_request(row), num_threads, cluster);
  const std::vector<std::int64_t>& bytes = price.arena_bytes;
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  const double busy = *std::max_element(price.busy_seconds.begin(), price.busy_seconds.end());
  return {.step_seconds = price.step_seconds,
          .first_stage_bytes = static_cast<double>(bytes.front()),
          .peak_bytes = static_cast<double>(*std::max_element(bytes.begin(), bytes.end())),
          .fits = all <= cluster.device.memory_bytes * cluster.node_devices,
          .bubble_seconds = std::max(price.step_seconds - busy, 0.0)};
}

}  // namespace trireme
