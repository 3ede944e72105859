#include "trireme/cli/text_evaluation.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/comm/threads/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/execute/cpu/cpu_backend.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/program/build.h"
#include "trireme/program/verify.h"
#include "trireme/train/batch_sources.h"
#include "trireme/train/checkpointing.h"

namespace trireme {
namespace {

/// Windows of a table in order; rows beyond the last one have no targets.
class WindowSource final : public BatchSource {
 public:
  WindowSource(const WindowTable& windows, std::int64_t num_windows, BatchCut cut)
      : windows_(windows), num_windows_(num_windows), cut_(cut) {}

  void load(int micro_batch, const MicroBatch& out) override {
    const auto seq = static_cast<std::size_t>(windows_.seq_len());
    for (std::int64_t b = 0; b < cut_.micro_batch; ++b) {
      const std::size_t first = static_cast<std::size_t>(b) * seq;
      const std::span tokens = out.tokens.subspan(first, seq),
                      labels = out.labels.subspan(first, seq);
      const std::int64_t window = cut_.row(micro_batch, b);
      if (window < num_windows_) {
        windows_.fill(window, tokens, labels);
      } else {
        std::fill(tokens.begin(), tokens.end(), 0);
        std::fill(labels.begin(), labels.end(), kIgnoredLabel);
      }
    }
  }
  /// Rows r, r + dp, ... of micro-batches of B windows: counted one by one, once.
  [[nodiscard]] std::int64_t num_valid_tokens() const override {
    std::int64_t rows = 0;
    for (int micro_batch = 0; cut_.row(micro_batch, 0) < num_windows_; ++micro_batch) {
      rows += std::min(cut_.micro_batch, num_windows_ - cut_.row(micro_batch, 0));
    }
    return rows * windows_.seq_len();
  }

 private:
  const WindowTable& windows_;
  std::int64_t num_windows_;
  BatchCut cut_;
};

struct EvaluationPlan {
  std::vector<Program> programs;  ///< by rank
  std::vector<Placement> placements;
};

EvaluationPlan plan_of(const EvaluationRequest& request) {
  const int world = request.layout.world();
  const auto num_micro_batches =
      narrow<int>(div_ceil(request.windows, request.batch.micro_batch * request.layout.dp));
  EvaluationPlan plan;
  for (int rank = 0; rank < world; ++rank) {
    const BuildRequest build{
        .spec = request.model.spec, .layout = request.layout, .batch = request.batch, .rank = rank};
    const ParameterRoots roots = roots_of(build_train(build));
    plan.programs.push_back(build_eval(build, num_micro_batches, roots));
  }
  const std::int64_t workspace_bytes =
      cpu_workspace_bytes(plan.programs.front(), request.threads_per_rank);
  for (Program& program : plan.programs) {
    set_workspace_bytes(program, workspace_bytes);
    plan.placements.push_back(place({&program}));
    require_valid(verify_placement({&program}, plan.placements.back()));
  }
  require_valid(verify(plan.programs));
  return plan;
}

class RankEvaluation {
 public:
  RankEvaluation(const EvaluationRequest& request, const EvaluationPlan& plan, ThreadWorld& world,
                 int rank)
      : program_(plan.programs.at(static_cast<std::size_t>(rank))) {
    set_rank_threads(request.threads_per_rank, request.resets_affinity);
    if (request.layout.world() > 1) {
      std::vector<int> ranks(static_cast<std::size_t>(request.layout.world()));
      std::iota(ranks.begin(), ranks.end(), 0);
      communicator_ = world.communicator(rank, ranks, "dp");
    }
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(std::make_unique<CpuBackend>(program_, request.threads_per_rank));
    executor_ = std::make_unique<RankExecutor>(
        std::vector<const Program*>{&program_}, plan.placements.at(static_cast<std::size_t>(rank)),
        std::move(backends), communicator_.get(),
        ExecutorOptions{.spin_count = 0, .abort = [&world, rank](std::exception_ptr cause) {
                          world.abort(rank, std::move(cause));
                        }});
    ModelState state(program_, *executor_, 0);
    load_weights(request.model.path, state);
  }

  EvaluationResult run(BatchSource& source) {
    executor_->run(0, {.source = &source});
    const auto tokens = executor_->scalar<double>(0, "num_tokens");
    return {.loss = executor_->scalar<double>(0, "loss") / tokens,
            .tokens = static_cast<std::int64_t>(tokens)};
  }

 private:
  const Program& program_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<RankExecutor> executor_;
};

}  // namespace

EvaluationResult evaluate_text(const EvaluationRequest& request, const WindowTable& windows) {
  const EvaluationPlan plan = plan_of(request);
  std::int64_t needed_bytes = 0;
  for (const Placement& placement : plan.placements) needed_bytes += placement.arena_bytes;
  require_memory(needed_bytes, request.layout.world());
  ThreadWorld world(request.layout.world(), {});
  EvaluationResult result;
  run_ranks(world, [&](int rank) {
    WindowSource source(windows, request.windows,
                        {.micro_batch = request.batch.micro_batch,
                         .dp = request.layout.dp,
                         .dp_rank = request.layout.mesh().coord_of(rank).dp});
    const EvaluationResult own = RankEvaluation(request, plan, world, rank).run(source);
    if (rank == 0) result = own;  // the loss is summed over all ranks already
  });
  return result;
}

}  // namespace trireme
