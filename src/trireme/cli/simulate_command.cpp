// trireme simulate
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"
#include "trireme/base/numbers.h"
#include "trireme/checkpoint/file.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/program_price.h"
#include "trireme/cli/run_log.h"
#include "trireme/cli/train_config.h"
#include "trireme/cli/validators.h"
#include "trireme/cost/quantity_file.h"
#include "trireme/program/schedules/schedules.h"
#include "trireme/program/schedules/virtual_clock.h"
#include "trireme/report/gantt.h"
#include "trireme/report/schedule_timeline.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

constexpr int kGanttColumns = 160;

struct SimulateArguments {
  std::string config;
  ModelStep step = {};
  std::string cluster;
  std::string costs;
  std::string schedule = "1f1b";
  int ranks = 4;
  int micro_batches = 8;
  int group = 0;
  std::string trace;
  std::string html;
  std::string beside;
  bool is_json = false;
  bool is_csv = false;
};

[[noreturn]] void refuse_cost(std::string_view field) {
  throw UsageError(fmt::format(
      "[command line] --costs: \"{}\": must be NAME=NUMBER with F, I, W, C or OV; use for example "
      "F=1,I=1,W=1,C=0",
      field));
}

ScheduleCosts parse_costs(std::string_view text) {
  ScheduleCosts costs;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(','));
    text.remove_prefix(std::min(field.size() + 1, text.size()));
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos) refuse_cost(field);
    double* target = nullptr;
    for (const auto& [name, member] :
         {std::pair("F", &costs.forward), std::pair("I", &costs.input),
          std::pair("W", &costs.weight), std::pair("C", &costs.latency),
          std::pair("OV", &costs.overlapped)}) {
      if (field.substr(0, equals) == name) target = member;
    }
    if (target == nullptr || !is_number(field.substr(equals + 1), *target)) refuse_cost(field);
  }
  return costs;
}

/// "NAME", "NAME:CHUNKS", or a file with a schedule in CSV form.
Schedule schedule_of(const SimulateArguments& arguments) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 26;
  if (arguments.schedule.ends_with(".csv")) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(arguments.schedule, error)) {
      throw UsageError(fmt::format(
          "[command line] --schedule {}: there is no such file; correct it", arguments.schedule));
    }
    return parse_schedule_csv(read_text(arguments.schedule, kMaxBytes, kPlainFile),
                              arguments.schedule);
  }
  const std::size_t colon = arguments.schedule.find(':');
  const std::string name = arguments.schedule.substr(0, colon);
  ScheduleShape shape{
      .ranks = arguments.ranks, .micro_batches = arguments.micro_batches, .group = arguments.group};
  const ScheduleKind* const kind = find_schedule_kind(name);
  if (kind != nullptr && kind->chunks > 0) shape.chunks = kind->chunks;
  if (colon != std::string::npos) {
    if (!is_number(arguments.schedule.substr(colon + 1), shape.chunks)) {
      throw UsageError(
          fmt::format("[command line] --schedule {}: chunks must be a whole number; use for "
                      "example {}:2",
                      arguments.schedule, name));
    }
  }
  return make_schedule(name, shape);
}

std::string result_json(const Schedule& schedule, const ScheduleTimes& times) {
  nlohmann::ordered_json order = nlohmann::ordered_json::array();
  for (const Order& of_rank : schedule.orders) {
    auto& texts = order.emplace_back(nlohmann::ordered_json::array());
    for (const ScheduleStep& step : of_rank) texts.push_back(step_text(step));
  }
  const nlohmann::ordered_json json = {{"schedule", schedule.name},
                                       {"ranks", schedule.num_ranks()},
                                       {"stages", schedule.num_stages},
                                       {"micro_batches", schedule.num_micro_batches},
                                       {"makespan_seconds", times.makespan},
                                       {"busy_seconds", times.busy},
                                       {"bubble_ratio", times.bubble_ratio()},
                                       {"in_flight", times.in_flight},
                                       {"in_flight_until_weight", times.in_flight_until_weight},
                                       {"order", order},
                                       {"starts", times.starts}};
  return json.dump(1) + "\n";
}

std::string result_text(const Schedule& schedule, const ScheduleTimes& times) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t rank = 0; rank < times.busy.size(); ++rank) {
    rows.push_back({fmt::format("{}", rank), fmt::format("{:.6g}", times.busy[rank]),
                    fmt::format("{:.6g}", times.makespan - times.busy[rank]),
                    fmt::format("{}", times.in_flight[rank]),
                    fmt::format("{}", times.in_flight_until_weight[rank])});
  }
  return fmt::format(
             "{}: {} stages on {} ranks, {} micro-batches; a bare schedule, times in units of the "
             "costs\n{}\n",
             schedule.name, schedule.num_stages, schedule.num_ranks(), schedule.num_micro_batches,
             text_gantt(schedule_timeline(schedule, times), kGanttColumns)) +
         text_table({"rank", "busy", "idle", "in flight to B or I", "in flight to B or W"}, rows) +
         fmt::format("makespan {:.6g}, bubble ratio {:.6g}\n", times.makespan,
                     times.bubble_ratio());
}

/// Exactly one of the three forms, each with what it needs.
void check_form(const SimulateArguments& arguments, const std::vector<ConfigOverride>& overrides) {
  const bool has_config = !arguments.config.empty(), has_model = !arguments.step.model.empty();
  const bool is_bare = !arguments.costs.empty();
  if (has_config + has_model + is_bare != 1 || is_bare != arguments.cluster.empty()) {
    throw UsageError(
        "[command line] simulate: needs CONFIG and --cluster, or --model, --cluster, --layout, "
        "--global-batch and --seq, to price a training step, or --costs alone, to price a bare "
        "schedule");
  }
  if (!has_config && !overrides.empty()) {
    throw UsageError(fmt::format(
        "[command line] simulate: --{} is a key of a config; name the CONFIG, or leave it out",
        overrides.front().name));
  }
  const bool has_batch = arguments.step.global_batch > 0 && arguments.step.seq > 0;
  if (has_model && (arguments.step.layout.empty() || !has_batch)) {
    throw UsageError(
        "[command line] simulate --model: needs --layout, --global-batch and --seq; give for "
        "example --layout \"pp=4 tp=4\" --global-batch 64 --seq 8192");
  }
  if (is_bare && !(arguments.html.empty() && arguments.beside.empty())) {
    throw UsageError(
        "[command line] simulate --costs: --html shows a training step; use --trace for a bare "
        "schedule");
  }
  if (!arguments.beside.empty() && arguments.html.empty()) {
    throw UsageError("[command line] simulate --beside: shows a run on the page; add --html FILE");
  }
}

void simulate_step(const SimulateArguments& arguments, const std::vector<ConfigOverride>& overrides,
                   const Session& session) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
  const StepReport report =
      arguments.config.empty()
          ? model_report(arguments.step, arguments.cluster)
          : program_report(
                train_config({.path = arguments.config, .overrides = overrides, .layout = {}}),
                arguments.cluster);
  if (!arguments.trace.empty()) replace_file(arguments.trace, report.trace());
  if (!arguments.html.empty()) {
    std::optional<Timeline> measured;
    if (!arguments.beside.empty()) {
      measured =
          parse_chrome_trace(read_text(arguments.beside, kMaxBytes, kPlainFile), arguments.beside);
      measured->title = "measured, " + measured->title;
    }
    replace_file(arguments.html, report.html(measured));
  }
  session.print(arguments.is_json ? report.json() : report.text());
}

void simulate_schedule(const SimulateArguments& arguments, const Session& session) {
  const ScheduleCosts costs = parse_costs(arguments.costs);
  const Schedule schedule = schedule_of(arguments);
  if (arguments.is_csv) return session.print(schedule_csv(schedule));
  const ScheduleTimes times = run_virtual_clock(schedule, costs);
  if (!arguments.trace.empty())
    replace_file(arguments.trace, chrome_trace_json(schedule_timeline(schedule, times)));
  session.print(arguments.is_json ? result_json(schedule, times) : result_text(schedule, times));
}

void run_simulate(const SimulateArguments& arguments, const std::vector<ConfigOverride>& overrides,
                  const Session& session) {
  check_form(arguments, overrides);
  if (!arguments.costs.empty()) return simulate_schedule(arguments, session);
  simulate_step(arguments, overrides, session);
}

void add_model_options(CLI::App& command, ModelStep& step) {
  CLI::Option* const model =
      command
          .add_option("--model", step.model, "name of a model, or a models/*.toml, without CONFIG")
          ->check(non_empty("model"));
  command
      .add_option("--layout", step.layout,
                  "of the model: \"pp=4 dp=8 tp=4 zero=1 mbs=1 schedule=interleaved:2\"")
      ->needs(model)
      ->check(non_empty("layout"));
  command.add_option("--global-batch", step.global_batch, "of the model: sequences of a step")
      ->needs(model)
      ->check(whole_from(1));
  command.add_option("--seq", step.seq, "of the model: tokens of a sequence")
      ->needs(model)
      ->check(whole_from(1));
  command.add_option("--precision", step.precision, "of the model: bf16 or fp32 (bf16)")
      ->needs(model);
}

std::string schedule_names() {
  std::string names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    names += fmt::format("  {:<14} {}\n", kind.name, kind.doc);
  }
  return names;
}

}  // namespace

void add_simulate_command(CLI::App& app, Session& session,
                          const std::vector<ConfigOverride>& overrides) {
  auto arguments = std::make_shared<SimulateArguments>();  // owned by the command's callback
  CLI::App* const command = app.add_subcommand(
      "simulate", "Price a training step, or a bare pipeline schedule, on a virtual clock");
  command->add_option("config", arguments->config, "config file (TOML) of a training run");
  command
      ->add_option(
          "--cluster", arguments->cluster,
          "file of trireme calibrate, for the machine whose cores the ranks share, or name "
          "of a published cluster, on which each rank has a device")
      ->check(non_empty("cluster"));
  add_model_options(*command, arguments->step);
  CLI::Option* const costs =
      command->add_option("--costs", arguments->costs,
                          "of a bare schedule: units of a stage's forward (F), input gradient (I), "
                          "weight gradient (W), a message (C) and DualPipe's pair (OV), as "
                          "F=1,I=1,W=1,C=0");
  command
      ->add_option("--schedule", arguments->schedule,
                   "name, name:chunks, or a file NAME.csv (1f1b)")
      ->needs(costs);
  command->add_option("--pp", arguments->ranks, "ranks of the pipeline (4)")->needs(costs);
  command->add_option("--micro-batches", arguments->micro_batches, "of a step (8)")->needs(costs);
  command
      ->add_option("--group", arguments->group,
                   "interleaved: micro-batches that a chunk takes at once; 0 = least valid")
      ->needs(costs)
      ->check(whole_from(0));
  CLI::Option* const trace =
      command->add_option("--trace", arguments->trace, "write a trace file for ui.perfetto.dev")
          ->check(output_file());
  command->add_option("--html", arguments->html, "write a page with pictures of the step")
      ->check(output_file());
  command
      ->add_option("--beside", arguments->beside,
                   "trace.json of a run (trace.steps): shown below the simulated step, with --html")
      ->check(non_empty("file"));
  CLI::Option* const json = command->add_flag("--json", arguments->is_json, "print JSON");
  command->add_flag("--csv", arguments->is_csv, "print the schedule itself, for --schedule FILE")
      ->needs(costs)
      ->excludes(trace)
      ->excludes(json);
  command->footer(fmt::format(
      "Schedules:\n{}Example: trireme simulate --schedule interleaved:2 --pp 4 --micro-batches 8 "
      "--costs F=1,I=1,W=1\n"
      "Example: trireme simulate configs/tiny.toml --cluster this-machine.toml --layout.pp 2\n"
      "Example: trireme simulate --model llama-3-8b --cluster h100-dgx --layout \"pp=2 dp=2 tp=4 "
      "zero=1 mbs=1\" --global-batch 32 --seq 8192 --html step.html\n"
      "Clusters: {}",
      schedule_names(), built_in_names("clusters")));
  command->callback(
      [arguments, &overrides, &session] { run_simulate(*arguments, overrides, session); });
}

}  // namespace trireme
