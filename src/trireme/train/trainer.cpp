#include "trireme/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/execute/rank_resources.h"
#include "trireme/kernels/cpu/isa.h"
#include "trireme/kernels/cpu/matmul.h"
#include "trireme/model/flops.h"
#include "trireme/program/build.h"
#include "trireme/program/groups.h"
#include "trireme/train/batch_sources.h"
#include "trireme/train/lr_schedule.h"
#include "trireme/train/rank_report.h"
#include "trireme/train/run_start.h"

namespace trireme {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kTrain = RunPlan::kTrain, kEval = RunPlan::kEval;
constexpr int kSpinCount = 2000;
constexpr double kPeakSeconds = 0.15;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

/// The sign of a NaN means nothing.
std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

/// What all ranks of a run share. Ranks write only their own elements of the result.
struct SharedRun {
  const TrainConfig& config;
  const RunPlan& plan;
  const TrainData& data;
  std::string data_identity;  ///< as it was at the start
  TrainObserver& observer;
  const TrainOptions& options;
  World& world;
  int spin_count = 0;
  CheckpointStore* store = nullptr;  ///< rank 0's
  TrainResult& result;  ///< written by rank 0, where it runs elsewhere by this process's rank
};

/// Of ranks that share this machine.
int spin_count_for(const RunPlan& plan) {
  std::set<Stream> streams = {Stream::kCompute};
  for (const RankPrograms& rank : plan.ranks) {
    for (const std::string& group : groups_of(rank.programs)) streams.insert(stream_of(group));
  }
  const auto comm_threads = narrow<int>(streams.size()) - 1;
  const int threads = plan.ranks_of_machine * (plan.threads_per_rank + comm_threads);
  return threads <= num_available_cores() ? kSpinCount : 0;
}

/// One rank's part of the run, on its own thread.
class RankRun {
 public:
  RankRun(SharedRun& shared, int rank, const std::optional<Checkpoint>& resume_from)
      : shared_(shared),
        resume_from_(resume_from),
        config_(shared.config),
        program_(shared.plan.program(rank, kTrain)),
        rank_(rank),
        cut_(batch_cut(config_.layout, config_.batch, rank)),
        resources_(shared.plan.ranks.at(static_cast<std::size_t>(rank)), shared.world, rank,
                   {.num_threads = shared.plan.threads_per_rank,
                    .resets_affinity = shared.options.resets_affinity,
                    .spin_count = shared.spin_count}),
        executor_(resources_.executor()),
        host_(resources_.host()),
        state_(program_, executor_, kTrain),
        source_(shared.data.train(), cut_, rank_valid_tokens()) {
    report_.arena_bytes = executor_.arena_bytes();
    if (evaluates()) {
      eval_source_.emplace(*shared.data.validation(), cut_,
                           shared.plan.program(rank, kEval).num_micro_batches);
    }
  }

  void run() {
    measure_peak();
    prepare_state();
    if (is_first()) {
      metrics_.emplace(run_folder(config_) / "metrics.jsonl", run_.step);
      warn_about_disk();
      shared_.observer.on_ready();
    }
    const std::int64_t first_step = run_.step;
    const auto start = SteadyClock::now();
    int signal = 0;
    while (run_.step < config_.run.steps && signal == 0) {
      step();
      signal = agreed_stop_signal();
      const bool is_last = run_.step == config_.run.steps || signal != 0;
      if (evaluates() && is_due(config_.run.eval_every) && !is_last) evaluate(true);
      if (is_due(config_.checkpoint.every) && !is_last) save();
    }
    if (evaluates() && signal == 0) evaluate(run_.step > first_step);
    if (resume_from_ == std::nullopt || run_.step != resume_from_->state.step) save();
    finish(signal, seconds_since(start));
  }

 private:
  [[nodiscard]] bool is_first() const { return rank_ == 0; }
  [[nodiscard]] bool is_due(std::int64_t every) const {
    return every > 0 && run_.step % every == 0;
  }
  [[nodiscard]] std::int64_t rank_valid_tokens() const {
    return program_.num_micro_batches * cut_.micro_batch * cut_.seq;
  }
  [[nodiscard]] bool evaluates() const { return shared_.plan.evaluates(); }

  /// All ranks at once, as they will compute.
  void measure_peak() {
    double flops = config_.run.peak_gflops * 1e9;
    if (flops == 0) {
      if (host_) host_->barrier();
      flops = measured_peak_flops(program_.request.compute, kPeakSeconds);
      peaks_ = flops;
      if (host_)
        host_->all_reduce(std::as_writable_bytes(std::span(&peaks_, 1)), {.dtype = DType::kF64});
    } else {
      peaks_ = flops * config_.layout.world();
    }
    if (is_first()) shared_.result.peak_flops = peaks_;
  }

  [[nodiscard]] Environment environment() const {
    return {.layout = layout_text(config_.layout, config_.batch),
            .data = shared_.data_identity,
            .threads_per_rank = shared_.plan.threads_per_rank,
            .instruction_set =
                fmt::format("{}/{}", kernels::matmul_instruction_set(), kernels::isa_name()),
            .library = kernels::matmul_library_version()};
  }

  void prepare_state() {
    if (resume_from_) {
      const Resumed resumed = resume_checkpoint(*resume_from_, state_, config_, environment());
      run_ = resumed.run;
      note(fmt::format("resumed {} at step {}", resume_from_->dir.string(), run_.step));
      for (const std::string& line : resumed.notes) note(line);
      note_what_is_past();
      return;
    }
    if (config_.model.checkpoint.empty()) {
      state_.initialize(static_cast<std::uint64_t>(config_.run.seed));
    } else {
      load_weights(config_.model.checkpoint, state_);
      note(fmt::format("weights loaded from {}", config_.model.checkpoint));
    }
  }

  void note_what_is_past() const {
    if (run_.step >= config_.run.steps) {
      note(fmt::format("nothing to train: the checkpoint is at step {}, run.steps = {}", run_.step,
                       config_.run.steps));
    }
    for (const auto& [what, steps] : {std::pair("--dump-steps", &shared_.options.dump_steps),
                                      std::pair("trace.steps", &config_.trace.steps)}) {
      for (const std::int64_t step : *steps) {
        if (step <= run_.step) note(fmt::format("{} {}: that step is past", what, step));
      }
    }
  }

  void note(const std::string& text) const {
    if (is_first()) shared_.observer.on_note(text);
  }

  void warn_about_disk() const {
    const std::int64_t needed = checkpoint_bytes(state_), available = shared_.store->free_bytes();
    if (needed <= available) return;
    note(fmt::format("warning: a checkpoint needs {} but {} has {} free; saving will fail",
                     format_bytes(needed), shared_.store->root().string(),
                     format_bytes(available)));
  }

  void set_hyper(double lr) {
    const auto hyper =
        executor_.values<double>(kTrain, program_.whole(*program_.find_buffer("hyper")));
    const OptimizerConfig& optimizer = config_.optimizer;
    const auto time = static_cast<double>(run_.updates + 1);
    hyper[HyperLayout::kLr] = lr;
    hyper[HyperLayout::kBeta1] = optimizer.betas[0];
    hyper[HyperLayout::kBeta2] = optimizer.betas[1];
    hyper[HyperLayout::kEps] = optimizer.eps;
    hyper[HyperLayout::kWeightDecay] = optimizer.weight_decay;
    hyper[HyperLayout::kCorrection1] = 1.0 - std::pow(optimizer.betas[0], time);
    hyper[HyperLayout::kCorrection2] = 1.0 - std::pow(optimizer.betas[1], time);
    hyper[HyperLayout::kMaxNorm] = optimizer.clip;
  }

  void step() {
    const auto start = SteadyClock::now();
    const std::int64_t number = run_.step + 1;
    shared_.world.begin_step(rank_, number);
    const bool is_traced =
        std::count(config_.trace.steps.begin(), config_.trace.steps.end(), number) > 0;
    const double lr = learning_rate(lr_schedule(config_), number);
    set_hyper(lr);
    source_.set_position(run_.next_sample);
    double local_loss = 0;
    executor_.record_times(is_traced);
    executor_.run(kTrain, {.source = &source_,
                           .seed = static_cast<std::uint64_t>(config_.run.seed),
                           .step = number,
                           .local_loss = &local_loss});
    executor_.record_times(false);
    if (is_traced) keep_traces();

    const auto num_tokens = executor_.scalar<double>(kTrain, "num_tokens");
    const auto coefficient =
        executor_.values<float>(kTrain, program_.whole(*program_.find_buffer("coef")));
    const double loss =
        num_tokens > 0 ? executor_.scalar<double>(kTrain, "loss") / num_tokens : 0.0;
    const auto norm = static_cast<double>(coefficient[CoefficientLayout::kNorm]);
    dump_if_asked(number, loss, norm);
    run_.step = number;
    run_.next_sample += config_.batch.global_batch;
    run_.tokens += config_.batch.tokens_per_step();
    if (coefficient[CoefficientLayout::kApply] != 0.0F) {
      ++run_.updates;
    } else {
      handle_nonfinite(loss, norm, local_loss);
    }
    report({.step = number,
            .loss = loss,
            .grad_norm = norm,
            .lr = lr,
            .tokens = run_.tokens,
            .valid_tokens = static_cast<std::int64_t>(num_tokens),
            .step_seconds = seconds_since(start),
            .memory_bytes = shared_.plan.memory_bytes(),
            .skipped = run_.skipped});
  }

  void keep_traces() {
    for (int s = 0; s < kNumStreams; ++s) {
      const auto stream = static_cast<Stream>(s);
      if (executor_.times(stream).empty()) continue;
      report_.traces.push_back({.program = &program_,
                                .rank = rank_,
                                .stream = stream,
                                .times = executor_.times(stream)});
    }
  }

  void dump_if_asked(std::int64_t number, double loss, double norm) {
    const auto& steps = shared_.options.dump_steps;
    if (shared_.options.dump_dir.empty() || std::count(steps.begin(), steps.end(), number) == 0)
      return;
    dump_step(state_,
              {.dir = shared_.options.dump_dir, .step = number, .loss = loss, .grad_norm = norm},
              host_);
  }

  /// The update was not applied on any rank. Names the first rank whose own loss is not finite, if
  /// there is one.
  void handle_nonfinite(double loss, double norm, double local_loss) {
    double first_bad = std::isfinite(local_loss) ? 1e9 : rank_;
    if (host_) {
      first_bad = -first_bad;
      host_->all_reduce(std::as_writable_bytes(std::span(&first_bad, 1)),
                        {.dtype = DType::kF64, .op = ReduceOp::kMax});
      first_bad = -first_bad;
    }
    const std::string place =
        first_bad < 1e9 ? fmt::format("first on rank {}", static_cast<int>(first_bad))
                        : std::string("in the gradients of all ranks; each rank's loss is finite");
    const std::string what =
        fmt::format("step {}: loss {} and gradient norm {} are not both finite ({})", run_.step,
                    number_text(loss), number_text(norm), place);
    if (config_.run.on_nonfinite == OnNonfinite::kStop) {
      throw ResourceError(
          fmt::format("[train] {}; the weights were not updated: resume the last checkpoint with a "
                      "lower optimizer.lr, or set run.on_nonfinite = \"skip\"",
                      what));
    }
    ++run_.skipped;
    note(fmt::format("{}: update skipped ({} so far)", what, run_.skipped));
  }

  void report(StepMetrics metrics) {
    if (!is_first()) return;
    const TokenRates rates =
        token_rates(config_.batch.tokens_per_step(), metrics.step_seconds, config_.layout.world());
    metrics.tokens_per_second = rates.tokens_per_second;
    metrics.tokens_per_second_per_rank = rates.tokens_per_second_per_rank;
    const auto flops =
        static_cast<double>(flops_per_token(config_.model.spec, config_.batch.seq).full());
    if (peaks_ > 0) metrics.mfu = flops * rates.tokens_per_second / peaks_;
    metrics_->write(metrics);
    shared_.observer.on_step(metrics,
                             is_due(config_.run.log_every) || run_.step == config_.run.steps);
  }

  /// Running a finished run again shows its loss, but writes no second line.
  void evaluate(bool writes_metrics) {
    executor_.run(kEval, {.source = &*eval_source_});
    if (!is_first()) return;
    const auto tokens = executor_.scalar<double>(kEval, "num_tokens");
    const EvalMetrics metrics{.step = run_.step,
                              .loss = executor_.scalar<double>(kEval, "loss") / tokens,
                              .tokens = static_cast<std::int64_t>(tokens)};
    if (writes_metrics) metrics_->write(metrics);
    shared_.result.last_eval = metrics;
    shared_.observer.on_eval(metrics);
  }

  /// Weights that are not finite on any rank never replace a good checkpoint.
  void save() {
    double num_bad = state_.has_finite_parameters() ? 0 : 1;
    if (host_)
      host_->all_reduce(std::as_writable_bytes(std::span(&num_bad, 1)), {.dtype = DType::kF64});
    if (num_bad > 0) {
      throw ResourceError(fmt::format(
          "[train] after step {} some weights are not finite, so nothing is saved; resume an "
          "earlier checkpoint with a lower optimizer.lr or weight_decay",
          run_.step));
    }
    const auto folder =
        save_checkpoint(is_first() ? shared_.store : nullptr, state_,
                        {.config = config_, .run = run_, .environment = environment()}, host_);
    if (!is_first()) return;
    shared_.result.checkpoint = folder;
    shared_.observer.on_checkpoint(folder);
  }

  /// A signal that any rank has seen, the same on all ranks, so that they stop after the same step.
  [[nodiscard]] int agreed_stop_signal() const {
    double signal = 0;
    if (shared_.options.stop_signal != nullptr) signal = shared_.options.stop_signal->load();
    if (host_) {
      host_->all_reduce(std::as_writable_bytes(std::span(&signal, 1)),
                        {.dtype = DType::kF64, .op = ReduceOp::kMax});
    }
    return static_cast<int>(signal);
  }

  void finish(int signal, double seconds) {
    report_.bytes_sent = resources_.bytes_sent();
    const std::vector<RankReport> reports = gather_reports(shared_.plan, std::move(report_), host_);
    if (rank_ != shared_.world.local_ranks().first) return;
    TrainResult& result = shared_.result;
    result.run = run_;
    result.stop_signal = signal;
    result.train_seconds = seconds;
    if (result.checkpoint.empty() && resume_from_) result.checkpoint = resume_from_->dir;
    for (const RankReport& report : reports) {
      result.arena_bytes.push_back(report.arena_bytes);
      result.bytes_sent.push_back(report.bytes_sent);
      result.traces.insert(result.traces.end(), report.traces.begin(), report.traces.end());
    }
  }

  SharedRun& shared_;
  const std::optional<Checkpoint>& resume_from_;
  const TrainConfig& config_;
  const Program& program_;  ///< the training step
  int rank_;
  BatchCut cut_;
  RankResources resources_;
  RankExecutor& executor_;
  Communicator* host_;  ///< nullptr if the rank is alone
  ModelState state_;
  TrainSource source_;
  std::optional<EvalSource> eval_source_;
  std::optional<MetricsWriter> metrics_;  ///< rank 0 only
  RunState run_;
  RankReport report_;
  double peaks_ = 0;  ///< FLOP/s of all ranks together
};

/// Collective, before any rank takes memory: the checkpoint to go on from.
std::optional<Checkpoint> start_run(SharedRun& shared, int rank) {
  std::optional<Checkpoint> resume_from;
  if (rank == 0) {
    const TrainConfig& config = shared.config;
    resume_from = find_resume(config, *shared.store, shared.observer);
    shared.store->remove_leftovers();  // a run that was killed after its last save saves no more
    if (!resume_from && !config.model.checkpoint.empty())
      verify_if_checkpoint(config.model.checkpoint);
    if (!shared.options.dump_dir.empty()) make_dump_folder(shared.options.dump_dir);
  }
  if (shared.world.size() == 1) return resume_from;
  std::vector<int> ranks(static_cast<std::size_t>(shared.world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto all = shared.world.communicator(rank, ranks, "start");
  if (shared.world.local_ranks().count < shared.world.size())
    check_same_plan(shared.plan, shared.data_identity, *all);
  return share_checkpoint(std::move(resume_from), *all);
}

/// The exception of the rank that failed first, saying which that was and in which step.
[[noreturn]] void throw_first_cause(const FirstCause& cause) {
  try {
    std::rethrow_exception(cause.exception);
  } catch (const PeerLost&) {
    throw;  // says it already
  } catch (const UsageError&) {
    throw UsageError(text_of(cause));
  } catch (const ResourceError&) {
    throw ResourceError(text_of(cause));
  } catch (const InternalError&) {
    throw InternalError(text_of(cause));
  }
}

void run_all(SharedRun& shared) {
  try {
    run_ranks(shared.world, [&](int rank) {
      const std::optional<Checkpoint> resume_from = start_run(shared, rank);
      RankRun(shared, rank, resume_from).run();
    });
  } catch (...) {
    const std::optional<FirstCause> cause = shared.world.first_cause();
    if (cause && cause->step > 0 && shared.world.size() > 1) throw_first_cause(*cause);
    throw;
  }
}

}  // namespace

TrainData::TrainData(const TrainConfig& config)
    : corpus_(config.data.text, config.data.val_fraction),
      train_(corpus_, {.seq_len = config.batch.seq,
                       .global_batch = config.batch.global_batch,
                       .seed = static_cast<std::uint64_t>(config.run.seed)}) {
  if (config.run.eval_every <= 0) return;
  std::optional<std::int64_t> tokens;
  if (config.run.eval_tokens > 0) tokens = config.run.eval_tokens;
  validation_.emplace(corpus_, Split::kValidation, config.batch.seq, tokens);
}

std::string TrainData::identity() const {
  std::string identity;
  for (int file = 0; file < corpus_.num_files(); ++file) {
    const FileDigest digest = digest_of(corpus_.path(file));
    identity += fmt::format("{}{} bytes {}", file == 0 ? "" : ", ", digest.bytes, digest.xxh64);
  }
  return identity;
}

std::filesystem::path run_folder(const TrainConfig& config) {
  return std::filesystem::path(config.run.dir) / config.run.name;
}

TrainResult train(const TrainConfig& config, const RunPlan& plan, const TrainData& data,
                  TrainObserver& observer, const TrainOptions& options) {
  require_memory(plan.bytes_of_machine(), plan.ranks_of_machine);
  TrainResult result;
  std::optional<ThreadWorld> threads;
  const int spin_count = spin_count_for(plan);
  if (options.world == nullptr) {
    threads.emplace(
        config.layout.world(),
        ThreadWorldOptions{.spin_count = spin_count,
                           .link = {.latency_seconds = config.ranks.link_latency_us * 1e-6,
                                    .bytes_per_second = config.ranks.link_gb_per_s * 1e9}});
  }
  World& world = options.world != nullptr ? *options.world : *threads;
  std::optional<CheckpointStore> store;
  if (world.local_ranks().first == 0) {
    store.emplace(run_folder(config), Retention{.keep_last = config.checkpoint.keep_last,
                                                .keep_every = config.checkpoint.keep_every});
  }
  SharedRun shared{.config = config,
                   .plan = plan,
                   .data = data,
                   .data_identity = data.identity(),
                   .observer = observer,
                   .options = options,
                   .world = world,
                   .spin_count = spin_count,
                   .store = store ? &*store : nullptr,
                   .result = result};
  kernels::warm_up_matmul();
  run_all(shared);
  return result;
}

}  // namespace trireme
