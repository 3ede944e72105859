#include "trireme/cli/text_evaluation.h"

#include <utility>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/execute/rank_resources.h"
#include "trireme/program/build.h"
#include "trireme/train/batch_sources.h"
#include "trireme/train/checkpointing.h"

namespace trireme {
namespace {

std::vector<RankPrograms> plan_of(const EvaluationRequest& request, std::int64_t num_windows) {
  const std::int64_t windows_at_once = request.batch.micro_batch * request.layout.dp;
  std::vector<std::vector<Program>> programs;
  for (int rank = 0; rank < request.layout.world(); ++rank) {
    programs.push_back({build_eval({.spec = request.model.spec,
                                    .layout = request.layout,
                                    .batch = request.batch,
                                    .rank = rank},
                                   narrow<int>(div_ceil(num_windows, windows_at_once)))});
  }
  return make_ready(std::move(programs), request.threads_per_rank);
}

}  // namespace

EvaluationResult evaluate_text(const EvaluationRequest& request, const EvalBatches& batches) {
  const Layout& layout = request.layout;
  const std::vector<RankPrograms> ranks = plan_of(request, batches.num_windows());
  require_memory(total_arena_bytes(ranks), layout.world());
  ThreadWorld world(layout.world());
  EvaluationResult result;
  run_ranks(world, [&](int rank) {
    const RankPrograms& programs = ranks[static_cast<std::size_t>(rank)];
    const Program& program = programs.programs.front();
    RankResources resources(
        programs, world, rank,
        {.num_threads = request.threads_per_rank, .resets_affinity = request.resets_affinity});
    RankExecutor& executor = resources.executor();
    ModelState state(program, executor, 0);
    load_weights(request.model.path, state);
    EvalSource source(batches, batch_cut(layout, request.batch, rank), program.num_micro_batches);
    executor.run(0, {.source = &source});
    if (rank != 0) return;  // the loss is summed over all ranks already
    const auto tokens = executor.scalar<double>(0, "num_tokens");
    result = {.loss = executor.scalar<double>(0, "loss") / tokens,
              .tokens = static_cast<std::int64_t>(tokens)};
  });
  return result;
}

}  // namespace trireme
