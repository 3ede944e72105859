// trireme train
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/folder_lock.h"
#include "trireme/cli/auto_layout.h"
#include "trireme/cli/cli.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/model_folder.h"
#include "trireme/cli/run_log.h"
#include "trireme/cli/run_summary.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/signals.h"
#include "trireme/cli/train_config.h"
#include "trireme/cli/validators.h"
#include "trireme/comm/mpi_world.h"
#include "trireme/execute/program_traffic.h"
#include "trireme/report/step_timeline.h"
#include "trireme/report/table.h"
#include "trireme/train/config_file.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

struct TrainArguments {
  std::string config;
  std::string layout;
  std::string cluster;  ///< of --layout auto
  bool is_dry_run = false;
  bool is_json = false;
  std::string dump_dir;
  std::vector<std::int64_t> dump_steps;
};

/// So that the written config works from any folder.
TrainConfig with_absolute_paths(TrainConfig config) {
  for (std::string& text : config.data.text) text = std::filesystem::absolute(text).string();
  std::string& weights = config.model.checkpoint;
  if (!weights.empty()) weights = std::filesystem::absolute(weights).string();
  config.run.dir = std::filesystem::absolute(config.run.dir).string();
  std::string& resume = config.checkpoint.resume;
  if (resume != "auto" && resume != "never") resume = std::filesystem::absolute(resume).string();
  return config;
}

/// Prints what happens, and counts it.
class RunObserver final : public TrainObserver {
 public:
  RunObserver(RunLog& log, const TrainConfig& config)
      : log_(log), config_(config), steps_(config.run.steps) {}

  void on_ready() override {
    replace_file(run_folder(config_) / "config.toml", config_toml(with_absolute_paths(config_)));
  }
  void on_step(const StepMetrics& metrics, bool is_logging_step) override {
    step_seconds_.push_back(metrics.step_seconds);
    seconds_ += metrics.step_seconds;
    const auto remaining = static_cast<double>(steps_ - metrics.step);
    log_.progress({.step = metrics.step,
                   .steps = steps_,
                   .loss = metrics.loss,
                   .grad_norm = metrics.grad_norm,
                   .lr = metrics.lr,
                   .tokens_per_second = metrics.tokens_per_second,
                   .tokens_per_second_per_rank = metrics.tokens_per_second_per_rank,
                   .mfu = metrics.mfu,
                   .memory_bytes = metrics.memory_bytes,
                   .eta_seconds = remaining * seconds_ / static_cast<double>(num_steps())},
                  is_logging_step);
  }
  void on_eval(const EvalMetrics& metrics) override {
    ++num_evals_;
    log_.print(fmt::format("eval  step {}  validation loss {:.4f}  perplexity {:.3f}  {} tokens",
                           metrics.step, metrics.loss, std::exp(metrics.loss),
                           format_count(metrics.tokens)));
  }
  void on_checkpoint(const std::filesystem::path& folder) override {
    log_.print(fmt::format("saved {}", folder.string()));
  }
  void on_note(std::string_view note) override { log_.print(fmt::format("note: {}", note)); }

  [[nodiscard]] std::int64_t num_steps() const { return std::ssize(step_seconds_); }
  [[nodiscard]] const std::vector<double>& step_seconds() const { return step_seconds_; }
  [[nodiscard]] std::int64_t num_evals() const { return num_evals_; }

 private:
  RunLog& log_;
  const TrainConfig& config_;
  std::int64_t steps_;
  std::int64_t num_evals_ = 0;
  std::vector<double> step_seconds_;
  double seconds_ = 0;  ///< their sum
};

/// Predicted and measured, side by side, for each rank.
std::string accounts(const RunPlan& plan, const TrainResult& result, const RunObserver& observer) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPrograms& rank = plan.ranks[r];
    GroupBytes predicted;
    for (const auto& [group, bytes] : program_bytes_sent(rank.programs[RunPlan::kTrain]))
      predicted[group] += observer.num_steps() * bytes;
    if (plan.evaluates()) {
      for (const auto& [group, bytes] : program_bytes_sent(rank.programs[RunPlan::kEval]))
        predicted[group] += observer.num_evals() * bytes;
    }
    std::vector<std::string> row = {fmt::format("{}", r), format_count(rank.placement.arena_bytes),
                                    format_count(result.arena_bytes[r])};
    for (const auto& [group, sent] : result.bytes_sent[r]) {
      row.insert(row.end(), {group, format_count(predicted[group]), format_count(sent)});
      rows.push_back(std::exchange(row, {"", "", ""}));
    }
    if (result.bytes_sent[r].empty()) {
      row.insert(row.end(), {"none", "0", "0"});
      rows.push_back(std::move(row));
    }
  }
  return "predicted and real bytes of each rank (sent: ring forms, 2(n-1)/n per all-reduce)\n" +
         text_table(
             {"rank", "memory predicted", "memory allocated", "group", "sent predicted", "sent"},
             rows);
}

/// On one rank whatever the layout, so that tp does not change the text.
std::string sample_text(const TrainConfig& config, const TrainResult& result,
                        const GeneratorRanks& one_rank) {
  constexpr std::int64_t kNumTokens = 400;
  Generator generator = load_generator({.path = result.checkpoint, .spec = config.model.spec},
                                       config.batch.seq, one_rank);
  std::string text = config.run.sample;
  generator.generate(byte_tokens(config.run.sample), kNumTokens,
                     {.temperature = 0.8, .seed = static_cast<std::uint64_t>(config.run.seed)},
                     [&](std::int32_t token) {
                       text += static_cast<char>(token);
                       return true;
                     });
  return safe_text(text);
}

void print_end(RunLog& log, const TrainConfig& config, const RunPlan& plan,
               const TrainResult& result, const RunObserver& observer, bool resets_affinity) {
  log.finish();
  if (result.last_eval) {
    log.print(fmt::format("validation loss {:.4f} nats per token after {} steps",
                          result.last_eval->loss, result.last_eval->step));
  }
  const bool is_stopped = result.stop_signal != 0;
  if (!is_stopped && !config.run.sample.empty()) {
    log.print(fmt::format(
        "sample (temperature 0.8):\n{}",
        sample_text(config, result,
                    {.num_threads = plan.threads_per_rank, .resets_affinity = resets_affinity})));
  }
  log.print(accounts(plan, result, observer));
  const std::filesystem::path folder = run_folder(config);
  log.print(fmt::format("checkpoint  {}\nmetrics     {}", result.checkpoint.string(),
                        (folder / "metrics.jsonl").string()));
  if (!result.traces.empty()) {
    replace_file(folder / "trace.json",
                 chrome_trace_json(step_timeline(config.run.name, result.traces)));
    log.print(fmt::format("trace       {} (open it in ui.perfetto.dev)",
                          (folder / "trace.json").string()));
  }
  if (is_stopped) {
    log.print(fmt::format("stopped by signal {} after step {}; the same command continues",
                          result.stop_signal, result.run.step));
  }
}

std::filesystem::path make_run_folder(const TrainConfig& config) {
  std::filesystem::path folder = run_folder(config);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return folder;
  throw ResourceError(
      fmt::format("[run] {}: {}; the run's folder must be writable; choose another run.dir or "
                  "run.name",
                  folder.string(), error.message()));
}

/// What a run needs beside its arguments where its ranks are processes.
struct Processes {
  MpiWorld& world;
  const StopSignals& signals;
};

/// The rank that speaks and writes. `planned` is nullptr where the layout was given.
void run_first_rank(const RunSummary& summary, const TrainOptions& options,
                    const AutoLayout* planned, Session& session) {
  const TrainConfig& config = summary.config;
  RunLog log(session);
  if (planned != nullptr) log.print(planned->text);
  log.print(summary_text(summary));
  if (options.world != nullptr) {
    log.print(fmt::format("mpi     {} of staging in each communicator of a rank",
                          format_bytes(MpiWorld::kStagingBytes)));
  }
  const FolderLock lock(make_run_folder(config));
  log.open(run_folder(config));
  RunObserver observer(log, config);
  TrainResult result;
  try {
    result = train(config, summary.plan, summary.data, observer, options);
    print_end(log, config, summary.plan, result, observer, session.resets_affinity);
    if (planned != nullptr && planned->step_seconds && observer.num_steps() > 0)
      log.print(predicted_and_measured(*planned->step_seconds, observer.step_seconds()));
  } catch (const std::exception& error) {
    log.log_failure(error.what());
    throw;
  }
  if (result.stop_signal != 0) session.exit_code = kExitSignalBase + result.stop_signal;
}

void run_other_rank(const RunSummary& summary, const TrainOptions& options, Session& session) {
  RunLog log(session);  // of no folder, to an output that nobody reads
  RunObserver observer(log, summary.config);
  const TrainResult result = train(summary.config, summary.plan, summary.data, observer, options);
  if (result.stop_signal != 0) session.exit_code = kExitSignalBase + result.stop_signal;
}

void check_arguments(const TrainArguments& arguments, const Session& session) {
  if (arguments.layout != kAutoLayout && !arguments.cluster.empty()) {
    throw UsageError(
        fmt::format("[command line] --cluster {}: training asks it for --layout auto alone; give "
                    "both, or leave it out",
                    safe_text(arguments.cluster)));
  }
  if (arguments.layout == kAutoLayout && session.launch.has_many()) {
    throw UsageError(
        "[command line] --layout auto with ranks that are processes: each would plan for itself, "
        "and only thread ranks are measured; plan with --dry-run in one process and give its "
        "layout");
  }
}

void check_dump_steps(const TrainArguments& arguments, const TrainConfig& config) {
  for (const std::int64_t step : arguments.dump_steps) {
    if (step >= 1 && step <= config.run.steps) continue;
    throw UsageError(
        fmt::format("[command line] --dump-steps {}: must be from 1 to run.steps = {}; use {}",
                    step, config.run.steps, step < 1 ? 1 : config.run.steps));
  }
}

/// Nothing if it was stopped. What is said meanwhile goes to standard error where the output is
/// JSON.
std::optional<AutoLayout> planned_layout(const TrainConfig& config, const TrainArguments& arguments,
                                         const std::vector<ConfigOverride>& overrides,
                                         const StopSignals& signals, const Session& session) {
  Session speaker = session;
  if (arguments.is_json) speaker.out = session.err;
  auto result = auto_layout(config,
                            {.cluster = arguments.cluster,
                             .keeps_micro_batch = is_given(overrides, "batch.micro_batch"),
                             .is_dry_run = arguments.is_dry_run,
                             .stop_signal = signals.number()},
                            speaker);
  if (result && arguments.is_dry_run) speaker.print(result->text);
  return result;
}

/// `processes` is nullptr where ranks are threads.
void run_train(const TrainArguments& arguments, const std::vector<ConfigOverride>& overrides,
               Session& session, const Processes* processes) {
  check_arguments(arguments, session);
  TrainConfig config =
      train_config({.path = arguments.config, .overrides = overrides, .layout = arguments.layout});
  static_cast<void>(
      chosen_transport(config.ranks.transport, session.launch, config.layout.world()));
  if (processes != nullptr) processes->world.set_timeout(config.ranks.timeout_s);
  if (!config.run.sample.empty()) require_byte_tokens(config.model.spec);
  check_dump_steps(arguments, config);
  const TrainData data(config);
  std::optional<StopSignals> own_signals;
  const auto signals = [&]() -> const StopSignals& {
    if (processes != nullptr) return processes->signals;
    return own_signals ? *own_signals : own_signals.emplace();
  };
  std::optional<AutoLayout> planned;
  if (arguments.layout == kAutoLayout) {
    if (!arguments.is_dry_run)
      static_cast<void>(make_run_folder(config));  // refused before a minute of measuring
    planned = planned_layout(config, arguments, overrides, signals(), session);
    if (!planned) {
      session.note("stopped before it trained");
      session.exit_code = kExitSignalBase + signals().number().load();
      return;
    }
    config = planned->config;
  }
  const RunPlan plan = make_run_plan(config, data.eval_windows(),
                                     processes != nullptr ? session.launch.local_size : 0);
  const RunSummary summary{.config = config, .data = data, .plan = plan, .launch = session.launch};
  if (arguments.is_dry_run) {
    return session.print(arguments.is_json ? summary_json(summary) : summary_text(summary));
  }
  const TrainOptions options{.dump_dir = arguments.dump_dir,
                             .dump_steps = arguments.dump_steps,
                             .stop_signal = &signals().number(),
                             .resets_affinity = session.resets_affinity,
                             .world = processes != nullptr ? &processes->world : nullptr};
  session.launch.rank == 0
      ? run_first_rank(summary, options, planned ? &*planned : nullptr, session)
      : run_other_rank(summary, options, session);
}

/// As one of the processes that a launcher has started. Whatever ends one of them ends all, and is
/// said once.
void run_train_process(const TrainArguments& arguments,
                       const std::vector<ConfigOverride>& overrides, Session& session) {
  const StopSignals signals;  // a process that is told to end with the others still says why
  std::optional<MpiWorld> world;
  try {
    world.emplace(
        session.launch,
        MpiWorldOptions{
            .report = [&](const FirstCause& cause) { print_error(session, text_of(cause)); },
            .end_process = [] { std::_Exit(kExitFailure); }});
  } catch (const UsageError&) {
    if (session.launch.rank == 0) throw;
    return;  // rank 0 says it, and its exit code counts
  }
  try {
    const Processes processes{.world = *world, .signals = signals};
    run_train(arguments, overrides, session, &processes);
  } catch (...) {
    world->abort(world->rank(), std::current_exception());
    session.is_reported = true;
    throw;
  }
}

}  // namespace

void add_train_command(CLI::App& app, Session& session,
                       const std::vector<ConfigOverride>& overrides) {
  auto arguments = std::make_shared<TrainArguments>();  // owned by the command's callback
  CLI::App* const command = app.add_subcommand("train", "Train a model");
  command->add_option("config", arguments->config, "config file (TOML)")->required();
  command->add_option("--layout", arguments->layout,
                      "layout text, for example \"dp=2 zero=1\"; auto: plan one for this machine");
  command
      ->add_option(
          "--cluster", arguments->cluster,
          "of --layout auto: this machine's file of trireme calibrate (else the run's own, "
          "or it is measured first, in a minute)")
      ->check(non_empty("cluster"));
  CLI::Option* const dry_run = command->add_flag("--dry-run", arguments->is_dry_run,
                                                 "build, verify and place, but do not train");
  command->add_flag("--json", arguments->is_json, "print the dry run as JSON")->needs(dry_run);
  CLI::Option* const dump = command->add_option(
      "--dump", arguments->dump_dir, "folder for gradients and weights of the --dump-steps");
  dump->check(non_empty("folder"));
  CLI::Option* const dump_steps =
      command->add_option("--dump-steps", arguments->dump_steps, "steps to dump, for example 1,5")
          ->delimiter(',')
          ->needs(dump);
  dump->needs(dump_steps);
  command->footer(
      "Any key of the config file can be given as --section.key VALUE.\n"
      "Example: trireme train configs/demo.toml --layout \"dp=2 zero=1\" --run.steps 20");
  command->callback([arguments, &overrides, &session] {
    session.launch.has_many() ? run_train_process(*arguments, overrides, session)
                              : run_train(*arguments, overrides, session, nullptr);
  });
}

}  // namespace trireme
