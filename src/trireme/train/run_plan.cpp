#include "trireme/train/run_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/program/build.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

RankPlan rank_plan(const TrainConfig& config, int rank, std::int64_t eval_windows) {
  const BuildRequest request{.spec = config.model.spec,
                             .layout = config.layout,
                             .batch = config.batch,
                             .rank = rank,
                             .decay_norms = config.optimizer.decay_norms};
  RankPlan plan{.train = build_train(request)};
  if (eval_windows > 0) {
    const std::int64_t windows_at_once = config.batch.micro_batch * config.layout.dp;
    plan.eval = build_eval(request, narrow<int>(div_ceil(eval_windows, windows_at_once)),
                           roots_of(plan.train));
  }
  return plan;
}

void verify_kind(const std::vector<RankPlan>& ranks, bool is_eval) {
  std::vector<Program> programs;
  for (const RankPlan& rank : ranks) {
    if (is_eval && !rank.eval) return;
    programs.push_back(is_eval ? *rank.eval : rank.train);
  }
  require_valid(verify(programs));
}

}  // namespace

std::vector<const Program*> RankPlan::programs() const {
  std::vector<const Program*> all = {&train};
  if (eval) all.push_back(&*eval);
  return all;
}

std::int64_t RunPlan::memory_bytes() const {
  std::int64_t most = 0;
  for (const RankPlan& rank : ranks) most = std::max(most, rank.placement.arena_bytes);
  return most;
}

int threads_per_rank(const TrainConfig& config, int num_cores) {
  if (config.ranks.threads_per_rank > num_cores) {
    throw UsageError(fmt::format(
        "[layout] threads_per_rank = {}: this machine has {} cores for the process, and more "
        "threads than cores only wait for each other; use {} or less, or 0",
        config.ranks.threads_per_rank, num_cores, num_cores));
  }
  if (config.ranks.threads_per_rank > 0) return config.ranks.threads_per_rank;
  return std::max(1, num_cores / config.layout.world());
}

RunPlan make_run_plan(const TrainConfig& config, std::int64_t eval_windows) {
  RunPlan plan;
  plan.threads_per_rank = threads_per_rank(config, num_available_cores());
  for (int rank = 0; rank < config.layout.world(); ++rank) {
    plan.ranks.push_back(rank_plan(config, rank, eval_windows));
  }
  // Ranks that differ only along dp run the same kernels: one of them tells what scratch they need.
  std::int64_t workspace_bytes = 0;
  for (const Program* program : plan.ranks.front().programs()) {
    workspace_bytes =
        std::max(workspace_bytes, cpu_workspace_bytes(*program, plan.threads_per_rank));
  }
  for (RankPlan& rank : plan.ranks) {
    set_workspace_bytes(rank.train, workspace_bytes);
    if (rank.eval) set_workspace_bytes(*rank.eval, workspace_bytes);
    rank.placement = place(rank.programs());
    require_valid(verify_placement(rank.programs(), rank.placement));
  }
  verify_kind(plan.ranks, false);
  verify_kind(plan.ranks, true);
  return plan;
}

}  // namespace trireme
