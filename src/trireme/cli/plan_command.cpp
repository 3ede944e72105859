// trireme plan
#include <CLI/CLI.hpp>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/csv.h"
#include "trireme/base/errors.h"
#include "trireme/base/numbers.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/file.h"
#include "trireme/cli/cli.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/plan_launch.h"
#include "trireme/cli/plan_page.h"
#include "trireme/cli/plan_text.h"
#include "trireme/cli/run_log.h"
#include "trireme/cli/search_progress.h"
#include "trireme/cli/signals.h"
#include "trireme/cli/validators.h"
#include "trireme/cost/known_models.h"

namespace trireme {
namespace {

// Far beyond any machine, and small enough for what is computed from them.
constexpr double kMostGib = 1e6;
constexpr double kMostTokens = 1e18;
constexpr double kMostHours = 1e9;

struct PlanArguments {
  std::string model;
  std::string cluster;
  std::string framework = "trireme";
  std::string precision = "bf16";
  int nodes = 0;
  int gpus = 0;
  std::int64_t global_batch = 0;
  std::int64_t seq = 0;
  PlanLimits limits;
  std::string recompute;
  std::string schedule;
  int zero = -1;
  int sp = -1;
  double memory_gib = 0;
  std::size_t top = 10;
  int threads = 0;
  bool is_json = false;
  bool is_csv = false;
  bool explains = false;
  std::string pareto;
  double tokens = 0;
  double mtbf_hours = 0;
  FailureModel failures{.checkpoint_seconds = 60};
  std::string sweep;
  std::string emit;
  std::string emit_folder = ".";
  std::string html;
};

[[noreturn]] void refuse(std::string_view option, std::string_view value, std::string_view rest) {
  throw UsageError(fmt::format("[command line] {} {}: {}", option, value, rest));
}

template <typename Enum, std::size_t kCount>
Enum choice(std::string_view option, const std::string& value, std::string_view (*name_of)(Enum)) {
  std::array<std::string_view, kCount> names;
  for (std::size_t i = 0; i < kCount; ++i) {
    names.at(i) = name_of(static_cast<Enum>(i));
    if (value == names.at(i)) return static_cast<Enum>(i);
  }
  refuse(option, value, fmt::format("must be one of {}; use {}", fmt::join(names, ", "), names[0]));
}

PlanLimits limits_of(const PlanArguments& arguments) {
  PlanLimits limits = arguments.limits;
  if (arguments.zero >= 0) limits.zero = arguments.zero;
  if (arguments.sp >= 0) limits.sp = arguments.sp == 1;
  if (arguments.sp == 1 && limits.tp == 1)
    refuse("--sp", "1", "there is nothing to divide with --tp 1; leave one of them out");
  for (const auto& [name, value, most] :
       {std::tuple("tp", std::int64_t{limits.tp}, std::int64_t{limits.max_tp}),
        std::tuple("cp", std::int64_t{limits.cp}, std::int64_t{limits.max_cp}),
        std::tuple("pp", std::int64_t{limits.pp}, std::int64_t{limits.max_pp}),
        std::tuple("mbs", limits.micro_batch, limits.max_micro_batch)}) {
    if (most == 0 || value <= most) continue;
    refuse(fmt::format("--{}", name), fmt::format("{}", value),
           fmt::format("must not be above --max-{} {}; leave one of them out", name, most));
  }
  if (!arguments.recompute.empty())
    limits.recompute = choice<Recompute, 3>("--recompute", arguments.recompute, recompute_name);
  const std::size_t colon = arguments.schedule.find(':');
  limits.schedule = arguments.schedule.substr(0, colon);
  if (colon == std::string::npos) return limits;
  if (!is_number(arguments.schedule.substr(colon + 1), limits.chunks) || limits.chunks < 2)
    refuse("--schedule", arguments.schedule, "chunks must be 2 or more; use interleaved:2");
  if (limits.schedule != "interleaved")
    refuse("--schedule", arguments.schedule, "only interleaved takes chunks; leave them out");
  return limits;
}

/// Without devices.
PlanRequest request_of(const PlanArguments& arguments, const std::string& model) {
  PlanRequest request{
      .model_name = model, .model = {}, .cluster = read_cluster(arguments.cluster), .profile = {}};
  const auto shape = known_model(model);
  if (!shape) {
    refuse("--model", model,
           fmt::format("not known; use one of {}, or PATH.toml", known_model_names()));
  }
  request.model = *shape;
  request.spec = known_spec(model);
  request.seq = arguments.seq;
  request.global_batch = arguments.global_batch;
  request.precision =
      choice<ComputePrecision, 4>("--precision", arguments.precision, precision_name);
  request.profile =
      for_precision(read_profile(arguments.framework, request.cluster), request.precision);
  request.limits = limits_of(arguments);
  if (arguments.memory_gib > 0) {
    const int sharers = request.cluster.is_cpu ? request.cluster.node_devices : 1;
    request.cluster.device.memory_bytes = arguments.memory_gib * kGib / sharers;
  }
  return request;
}

PlanOptions options_of(const PlanArguments& arguments, const StopSignals& signals,
                       SearchProgress& progress) {
  PlanOptions options;
  options.top = arguments.top;
  options.has_pareto = !arguments.pareto.empty();
  options.control.threads = arguments.threads;
  options.control.stop = &signals.number();
  options.control.progress = [&progress](std::size_t done, std::size_t total) {
    progress.show(done, total);
  };
  return options;
}

PlanQuestions questions_of(const PlanArguments& arguments) {
  constexpr double kHour = 3600;
  PlanQuestions questions{.tokens = arguments.tokens};
  if (arguments.mtbf_hours > 0) {
    questions.failures = arguments.failures;
    questions.failures->mtbf_seconds = arguments.mtbf_hours * kHour;
  }
  return questions;
}

struct Answer {
  Plan plan;
  std::optional<Explanation> explanation = {};
  std::optional<int> nodes_that_fit = {};
  std::optional<PlannedLayout> without_limits = {};  ///< where nothing fits within them
  std::string refusal = {};                          ///< where not even the rules leave a layout
};

std::string answer_text(const PlanRequest& request, const Answer& answer,
                        const PlanQuestions& questions) {
  const Plan& plan = answer.plan;
  std::string text = request_text(request) + counts_text(plan) + "\n";
  if (plan.is_stopped) text += "stopped by a signal: the best so far\n";
  if (plan.layouts.empty()) {
    if (!plan.nearest) return text + answer.refusal + "\n";
    text += nearest_text(request, *plan.nearest);
    if (!answer.without_limits) return text + remedy_text(request, answer.nodes_that_fit);
    const Workload& free = answer.without_limits->workload;
    return text + fmt::format("without the limits given this layout fits:\n    {}\n",
                              layout_text(free.layout, free.batch));
  }
  text += layouts_text(request, plan.layouts, questions);
  if (!plan.pareto.empty()) {
    text += "\nless memory for more time, nothing better in both (memory in closed form)\n" +
            layouts_text(request, plan.pareto, questions);
  }
  if (questions.failures)
    text += "\n" + goodput_text(*questions.failures, plan.layouts.front().step_seconds());
  if (answer.explanation) text += "\n" + explanation_text(request, plan, *answer.explanation);
  return text;
}

void write_page(const std::string& path, const PlanRequest& request, const Answer& answer,
                const PlanQuestions& questions, const Session& session) {
  if (answer.plan.layouts.empty())
    return session.note(path + " is not written: there is no layout");
  replace_file(path, plan_html(request, answer.plan, questions, answer.explanation));
}

/// On a calibrated machine ranks, by default one a core.
int devices_of(const PlanArguments& arguments, const Cluster& cluster) {
  if (arguments.gpus > 0) return arguments.gpus;
  if (cluster.is_cpu && arguments.nodes > 1) {
    refuse("--nodes", fmt::format("{}", arguments.nodes),
           "a calibrated machine is one node; use --gpus for the number of ranks");
  }
  if (cluster.is_cpu) return cluster.node_devices;
  const int most_nodes = std::numeric_limits<int>::max() / cluster.node_devices;
  if (arguments.nodes > most_nodes) {
    refuse("--nodes", fmt::format("{}", arguments.nodes),
           fmt::format("must be at most {}; correct it", most_nodes));
  }
  if (arguments.nodes > 0) return arguments.nodes * cluster.node_devices;
  throw UsageError(
      "[command line] plan: --nodes or --gpus is missing: must be given for a cluster; see trireme "
      "plan --help");
}

void run_plan(const PlanArguments& arguments, Session& session) {
  PlanRequest request = request_of(arguments, arguments.model);
  request.devices = devices_of(arguments, request.cluster);
  check_request(request);
  const PlanQuestions questions = questions_of(arguments);
  const auto target = arguments.emit.empty()
                          ? std::nullopt
                          : std::optional(emit_target(arguments.emit, arguments.emit_folder));
  const StopSignals signals;
  SearchProgress progress(session);
  const PlanOptions options = options_of(arguments, signals, progress);
  Answer answer{.plan = make_plan(request, options)};
  const Plan& plan = answer.plan;
  const bool is_stopped = signals.number().load() != 0;
  const bool is_for_reading = !arguments.is_json && !arguments.is_csv;
  if (plan.layouts.empty() && plan.nearest && !is_stopped && is_for_reading) {
    answer.without_limits = fastest_without_limits(request, options);
    if (!answer.without_limits && !request.cluster.is_cpu && signals.number().load() == 0)
      answer.nodes_that_fit = nodes_that_fit(request, options);
  }
  if (plan.layouts.empty() && !plan.nearest)
    answer.refusal = "no layout: " + impossible_because(request, plan);
  if (arguments.explains && !plan.layouts.empty() && !is_stopped)
    answer.explanation = explain(request, plan, options);
  if (arguments.is_json) {
    session.print(plan_json(request, plan, questions, answer.explanation));
    if (!answer.refusal.empty()) print_error(session, "[plan] " + answer.refusal);
  } else if (arguments.is_csv) {
    session.print(plan_csv(request, plan.layouts));
  } else {
    session.print(answer_text(request, answer, questions));
  }
  if (!arguments.html.empty()) write_page(arguments.html, request, answer, questions, session);
  if (target && !plan.layouts.empty()) session.print("\n" + emit_launch(request, plan, *target));
  if (plan.layouts.empty()) session.exit_code = kExitFailure;
  if (const int number = signals.number().load(); number != 0) {
    if (arguments.is_csv || !arguments.html.empty() || target)
      session.note("stopped by a signal: what is written is the best so far");
    session.exit_code = kExitSignalBase + number;
  }
}

/// The Playbook's models and nodes, one million tokens a step.
void run_sweep(PlanArguments arguments, Session& session) {
  constexpr std::int64_t kMaxTableBytes = std::int64_t{1} << 26;
  constexpr std::array kModels = {"1B", "3B", "8B", "80B"};
  constexpr std::array kNodes = {1, 2, 4, 8, 16, 32, 64};
  arguments.global_batch = 256;
  arguments.seq = 4096;
  const auto runs = published_runs(
      parse_csv(read_text(arguments.sweep, kMaxTableBytes, kPlainFile), arguments.sweep),
      arguments.sweep);
  const StopSignals signals;
  SearchProgress progress(session);
  const PlanOptions options = options_of(arguments, signals, progress);
  std::vector<SweepCell> cells;
  for (const char* const model : kModels) {
    PlanRequest request = request_of(arguments, model);
    if (request.cluster.is_cpu)
      refuse("--cluster", arguments.cluster, "published runs are of clusters; name one of those");
    for (const int nodes : kNodes) {
      if (signals.number().load() != 0) break;
      request.devices = nodes * request.cluster.node_devices;
      check_request(request);
      cells.push_back(sweep_cell(request, runs, options));
    }
  }
  session.print(fmt::format(
      "{} on {}: {} sequences of {} tokens a step. \"choice\" is what the published run that is "
      "predicted to be fastest has measured, by the fastest.\n",
      arguments.framework, arguments.cluster, arguments.global_batch, arguments.seq));
  session.print(sweep_text(cells));
  if (const int number = signals.number().load(); number != 0) {
    session.note("stopped by a signal: the rows so far");
    session.exit_code = kExitSignalBase + number;
  }
}

void add_request_options(CLI::App& command, PlanArguments& arguments) {
  command.add_option("--model", arguments.model, "name of a model, or PATH.toml")
      ->check(non_empty("model"));
  command
      .add_option("--cluster", arguments.cluster,
                  "name of a cluster, or PATH.toml; also of trireme calibrate")
      ->required()
      ->check(non_empty("cluster"));
  CLI::Option* const nodes =
      command.add_option("--nodes", arguments.nodes, "nodes of the cluster")->check(whole_from(1));
  command
      .add_option("--gpus", arguments.gpus,
                  "devices, instead of whole nodes; ranks on a calibrated machine (its cores)")
      ->check(whole_from(1))
      ->excludes(nodes);
  command.add_option("--global-batch", arguments.global_batch, "sequences of a step")
      ->check(whole_from(1));
  command.add_option("--seq", arguments.seq, "tokens of a sequence")->check(whole_from(1));
  command.add_option("--framework", arguments.framework,
                     "name of a profile, or PATH.toml (trireme)");
  command.add_option("--precision", arguments.precision, "bf16, fp16, fp8 or fp32 (bf16)");
}

void add_limit_options(CLI::App& command, PlanArguments& arguments) {
  PlanLimits& limits = arguments.limits;
  const auto degree = [&](const char* name, int& target, const char* text) {
    command.add_option(name, target, text)->check(whole_from(1));
  };
  degree("--tp", limits.tp, "fix tensor parallelism");
  degree("--cp", limits.cp, "fix context parallelism");
  degree("--pp", limits.pp, "fix the stages of the pipeline");
  degree("--dp", limits.dp, "fix the replicas");
  degree("--max-tp", limits.max_tp, "most tensor parallelism");
  degree("--max-cp", limits.max_cp, "most context parallelism");
  degree("--max-pp", limits.max_pp, "most stages");
  command.add_option("--mbs", limits.micro_batch, "fix the sequences of a micro-batch")
      ->check(whole_from(1));
  command.add_option("--max-mbs", limits.max_micro_batch, "most sequences of a micro-batch")
      ->check(whole_from(1));
  command.add_option("--zero", arguments.zero, "fix the ZeRO stage")->check(CLI::Range(0, 3));
  command.add_option("--sp", arguments.sp, "fix sequence parallelism, 0 or 1")
      ->check(CLI::Range(0, 1));
  command.add_option("--schedule", arguments.schedule, "fix the schedule, NAME or NAME:CHUNKS");
  command.add_option("--recompute", arguments.recompute, "fix it: none, selective or full");
  command
      .add_option("--memory-gib", arguments.memory_gib,
                  "memory of a device, or of a calibrated machine, instead of its own")
      ->check(number_up_to(kMostGib));
}

void add_answer_options(CLI::App& command, PlanArguments& arguments) {
  command.add_option("--top", arguments.top, "layouts to offer (10)")->check(CLI::Range(1, 1000));
  CLI::Option* const json = command.add_flag("--json", arguments.is_json, "print JSON");
  CLI::Option* const csv =
      command.add_flag("--csv", arguments.is_csv, "print a table that trireme predict reads")
          ->excludes(json);
  command
      .add_flag("--explain", arguments.explains,
                "say why: what binds, why the runner-up loses, what changes would bring")
      ->excludes(csv);
  command
      .add_option(
          "--pareto", arguments.pareto,
          "also the layouts that trade one for the other: memory,throughput is what it takes")
      ->check([](const std::string& value) {
        return value == "memory,throughput"
                   ? std::string()
                   : value + ": must be memory,throughput; use --pareto memory,throughput";
      })
      ->excludes(csv);
  command.add_option("--tokens", arguments.tokens, "of the whole training, for GPU-hours")
      ->check(number_up_to(kMostTokens))
      ->excludes(csv);
  CLI::Option* const mtbf =
      command
          .add_option("--mtbf-hours", arguments.mtbf_hours,
                      "mean time between failures of the whole run, for checkpoints")
          ->check(number_up_to(kMostHours))
          ->excludes(csv);
  command
      .add_option("--checkpoint-seconds", arguments.failures.checkpoint_seconds,
                  "in which saving holds training up (60)")
      ->check(number_up_to(kMostHours))
      ->needs(mtbf);
  command
      .add_option("--restart-seconds", arguments.failures.restart_seconds,
                  "from a failure to the next step (0)")
      ->check(number_up_to(kMostHours, true))
      ->needs(mtbf);
  command.add_option("--threads", arguments.threads, "of the search; the plan is the same (all)")
      ->check(whole_from(1));
}

void add_file_options(CLI::App& command, PlanArguments& arguments) {
  CLI::Option* const emit =
      command
          .add_option("--emit", arguments.emit,
                      "write the best layout's configuration for one of " + framework_names())
          ->excludes(command.get_option("--json"))
          ->check(non_empty("framework"));
  command.add_option("--emit-folder", arguments.emit_folder, "where (the current one)")
      ->needs(emit);
  command.add_option("--html", arguments.html, "write a page with tables and pictures")
      ->check(output_file());
  CLI::Option* const sweep =
      command
          .add_option("--sweep", arguments.sweep,
                      "CSV of published runs, instead of --model and the rest: plan 1B to 80B on 1 "
                      "to 64 nodes, a million tokens a step, beside the best of them")
          ->check(non_empty("file"));
  for (const char* const other :
       {"--model", "--nodes", "--gpus", "--global-batch", "--seq", "--top", "--json", "--csv",
        "--explain", "--pareto", "--tokens", "--mtbf-hours", "--emit", "--html"})
    sweep->excludes(command.get_option(other));
}

void check_arguments(const PlanArguments& arguments) {
  if (!arguments.sweep.empty()) return;
  for (const auto& [name, is_missing] : {std::pair("--model", arguments.model.empty()),
                                         std::pair("--global-batch", arguments.global_batch == 0),
                                         std::pair("--seq", arguments.seq == 0)}) {
    if (is_missing) {
      throw UsageError(fmt::format(
          "[command line] plan: {} is missing: must be given without --sweep; see trireme plan "
          "--help",
          name));
    }
  }
}

}  // namespace

void add_plan_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();  // owned by the command's callback
  CLI::App* const command =
      app.add_subcommand("plan", "Rank layouts for a model on a cluster, and say why");
  add_request_options(*command, *arguments);
  add_limit_options(*command, *arguments);
  add_answer_options(*command, *arguments);
  add_file_options(*command, *arguments);
  command->footer(fmt::format(
      "Clusters: {}\nFrameworks: {}\nModels: {}\n"
      "Example: trireme plan --model llama-3-8b --cluster h100-dgx --nodes 16 --global-batch 1024 "
      "--seq 8192 --explain --html plan.html",
      built_in_names("clusters"), built_in_names("profiles"), known_model_names()));
  command->callback([arguments, &session] {
    check_arguments(*arguments);
    if (arguments->sweep.empty()) {
      run_plan(*arguments, session);
    } else {
      run_sweep(*arguments, session);
    }
  });
}

}  // namespace trireme
