#include "trireme/train/run_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/program/build.h"

namespace trireme {
namespace {

DType dtype_of(Precision precision) {
  return precision == Precision::kBf16 ? DType::kBf16 : DType::kF32;
}

std::vector<Program> programs_of(const TrainConfig& config, int rank, std::int64_t eval_windows) {
  const BuildRequest request{.spec = config.model.spec,
                             .layout = config.layout,
                             .batch = config.batch,
                             .rank = rank,
                             .decay_norms = config.optimizer.decay_norms,
                             .compute = dtype_of(config.precision.compute),
                             .reduce = dtype_of(config.precision.reduce)};
  std::vector<Program> programs = {build_train(request)};
  if (eval_windows > 0) {
    const std::int64_t windows_at_once = config.batch.micro_batch * config.layout.dp;
    programs.push_back(build_eval(request, narrow<int>(div_ceil(eval_windows, windows_at_once)),
                                  roots_of(programs.front())));
  }
  return programs;
}

}  // namespace

std::int64_t RunPlan::memory_bytes() const {
  std::int64_t most = 0;
  for (const RankPrograms& rank : ranks) most = std::max(most, rank.placement.arena_bytes);
  return most;
}

std::int64_t RunPlan::bytes_of_machine() const {
  if (ranks_of_machine == std::ssize(ranks)) return total_arena_bytes(ranks);
  return ranks_of_machine * memory_bytes();
}

int threads_per_rank(const RanksConfig& config, int num_cores, int num_ranks) {
  if (config.threads_per_rank > num_cores) {
    throw UsageError(fmt::format(
        "[layout] threads_per_rank = {}: this machine has {} cores for the process, and more "
        "threads than cores only wait for each other; use {} or less, or 0",
        config.threads_per_rank, num_cores, num_cores));
  }
  if (config.threads_per_rank > 0) return config.threads_per_rank;
  return std::max(1, num_cores / num_ranks);
}

RunPlan make_run_plan(const TrainConfig& config, std::int64_t eval_windows, int ranks_of_machine) {
  RunPlan plan;
  plan.ranks_of_machine = ranks_of_machine > 0 ? ranks_of_machine : config.layout.world();
  plan.threads_per_rank =
      threads_per_rank(config.ranks, num_available_cores(), plan.ranks_of_machine);
  std::vector<std::vector<Program>> programs;
  for (int rank = 0; rank < config.layout.world(); ++rank) {
    programs.push_back(programs_of(config, rank, eval_windows));
  }
  plan.ranks = make_ready(std::move(programs), plan.threads_per_rank);
  return plan;
}

}  // namespace trireme
