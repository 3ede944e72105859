#include "trireme/calibrate/probe_run.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "trireme/base/philox.h"
#include "trireme/execute/thread_ranks.h"
#include "trireme/program/build.h"
#include "trireme/train/model_state.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

class RandomTokens final : public BatchSource {
 public:
  explicit RandomTokens(const BuildRequest& request)
      : vocab_(static_cast<std::uint32_t>(request.spec.vocab)),
        num_tokens_(request.batch.tokens_per_step() / request.layout.dp) {}
  void load(int, const MicroBatch& out) override {
    fill(out.tokens, 1);
    fill(out.labels, 2);
  }
  [[nodiscard]] std::int64_t num_valid_tokens() const override { return num_tokens_; }

 private:
  void fill(std::span<std::int32_t> tokens, std::uint64_t key) const {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(philox(key, philox_counter(i, 0))[0] % vocab_);
  }
  std::uint32_t vocab_;
  std::int64_t num_tokens_;
};

void set_hyper(const Program& program, RankExecutor& executor) {
  const auto hyper = executor.values<double>(0, program.whole(*program.find_buffer("hyper")));
  hyper[HyperLayout::kLr] = 1e-4;
  hyper[HyperLayout::kBeta1] = 0.9;
  hyper[HyperLayout::kBeta2] = 0.95;
  hyper[HyperLayout::kEps] = 1e-8;
  hyper[HyperLayout::kWeightDecay] = 0.1;
  hyper[HyperLayout::kCorrection1] = 0.1;
  hyper[HyperLayout::kCorrection2] = 0.05;
  hyper[HyperLayout::kMaxNorm] = 1.0;
}

/// What one rank has recorded in a step that took `seconds`.
void add_times(const Probe& probe, const Program& program, const RankExecutor& executor,
               double seconds, ProbeTimes& times) {
  const LocalModel model(program);
  const std::vector<InstructionTime>& recorded = executor.times(Stream::kCompute);
  double inside = 0;
  for (const InstructionTime& time : recorded) {
    const Call& call = program.calls[static_cast<std::size_t>(time.call)];
    const Instruction& instruction =
        program.at(call.template_index).instructions[static_cast<std::size_t>(time.instruction)];
    const double elapsed = time.end_seconds - time.start_seconds;
    inside += elapsed;
    times
        .kernels[{.call = kernel_call(program, model, instruction),
                  .bits = program.request.compute == DType::kBf16 ? 16 : 32,
                  .threads = probe.num_threads,
                  .ranks = probe.num_busy}]
        .push_back(elapsed);
  }
  if (probe.request.layout.world() > 1 || recorded.size() < 2) return;
  const double span = recorded.back().end_seconds - recorded.front().start_seconds;
  times.instruction.push_back((span - inside) / static_cast<double>(recorded.size() - 1));
  times.step.push_back(seconds - span);
}

}  // namespace

void run_probe(const Probe& probe, bool resets_affinity, ProbeTimes& times) {
  std::vector<std::vector<Program>> programs;
  for (Program& program : probe_programs(probe)) programs.push_back({std::move(program)});
  const std::vector<RankPrograms> ready = make_ready(std::move(programs), probe.num_threads);
  ThreadRanks ranks(ready, {.num_threads = probe.num_threads, .resets_affinity = resets_affinity});
  RandomTokens source(probe.request);
  std::mutex mutex;  // guards `times`
  ranks.run([&](int rank, RankResources& resources) {
    const Program& program = ready[static_cast<std::size_t>(rank)].programs.front();
    ModelState(program, resources.executor(), 0).initialize(1);
    set_hyper(program, resources.executor());
    resources.executor().run(0, {.source = &source, .step = 1});
    resources.executor().record_times(true);
  });
  ranks.run([&](int rank, RankResources& resources) {
    RankExecutor& executor = resources.executor();
    const auto start = Clock::now();
    executor.run(0, {.source = &source, .step = 2});
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::lock_guard lock(mutex);
    add_times(probe, ready[static_cast<std::size_t>(rank)].programs.front(), executor, seconds,
              times);
  });
}

}  // namespace trireme
