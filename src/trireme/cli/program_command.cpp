// trireme program
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/file.h"
#include "trireme/cli/cli.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/train_config.h"
#include "trireme/cli/verification.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

struct ProgramArguments {
  std::string config;
  std::string check;
  std::string rank = "0";
  std::string kind = "train";
  bool is_json = false;
};

std::vector<int> chosen_ranks(const std::string& text, int world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world; ++rank) {
    if (text == "all" || text == std::to_string(rank)) ranks.push_back(rank);
  }
  if (!ranks.empty()) return ranks;
  throw UsageError(
      fmt::format("[command line] --rank {}: must be 0 to {}, or all", text, world - 1));
}

void print_programs(const ProgramArguments& arguments, const std::vector<ConfigOverride>& overrides,
                    const Session& session) {
  const TrainConfig config =
      train_config({.path = arguments.config, .overrides = overrides, .layout = {}});
  const bool is_eval = arguments.kind == "eval";
  const std::int64_t eval_windows = is_eval ? TrainData(config).eval_windows() : 0;
  if (is_eval && eval_windows == 0) {
    throw UsageError(
        "[command line] --kind eval: the run does not evaluate; set run.eval_every above 0");
  }
  const RunPlan plan = make_run_plan(config, eval_windows);
  std::vector<std::string> texts;
  for (const int rank : chosen_ranks(arguments.rank, config.layout.world())) {
    const Program& program = plan.program(rank, is_eval ? RunPlan::kEval : RunPlan::kTrain);
    texts.push_back(arguments.is_json ? program_json(program) : program_text(program));
  }
  const bool is_list = arguments.is_json && arguments.rank == "all";
  session.print(is_list ? fmt::format("[{}]\n", fmt::join(texts, ","))
                        : fmt::format("{}\n", fmt::join(texts, "")));
}

/// The first rule that the programs, or their placement, break.
std::optional<Violation> first_violation(const std::vector<Program>& programs) {
  std::map<ProgramKind, std::vector<Program>> by_kind;
  std::map<int, std::vector<const Program*>> by_rank;
  for (const Program& program : programs) {
    by_kind[program.kind].push_back(program);
    by_rank[program.request.rank].push_back(&program);
  }
  for (const auto& [kind, of_kind] : by_kind) {
    if (auto violation = verify(of_kind)) return violation;
  }
  for (const auto& [rank, of_rank] : by_rank) {
    if (auto violation = verify_placement(of_rank, place(of_rank))) return violation;
  }
  return std::nullopt;
}

/// Some rank of a world has no program of a kind that others have.
bool has_missing_ranks(const std::vector<Program>& programs) {
  std::map<ProgramKind, int> num_programs;
  for (const Program& program : programs) ++num_programs[program.kind];
  return std::any_of(programs.begin(), programs.end(), [&](const Program& program) {
    return num_programs[program.kind] < program.request.layout.world();
  });
}

void refuse(Session& session, const std::string& message) {
  fmt::print(session.err, "trireme: {}\n", safe_text(message));
  session.exit_code = kExitFailure;
}

void check_file(const std::string& path, Session& session) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
  if (!std::filesystem::is_regular_file(path)) {
    throw UsageError(fmt::format(
        "[command line] --check {}: no such file; name a text that trireme program printed",
        safe_text(path)));
  }
  std::vector<Program> programs;
  try {
    programs = parse_programs(read_text(path, kMaxBytes, kPlainFile));
  } catch (const BrokenRange& error) {
    return refuse(session, error.what());
  }
  if (const auto violation = first_violation(programs)) {
    return refuse(session, fmt::format("[{}] rank {}, call {}, instruction {}: {}", violation->rule,
                                       violation->rank, violation->call, violation->instruction,
                                       violation->message));
  }
  session.print(fmt::format("ok: {} {}, rules {}\n", programs.size(),
                            programs.size() == 1 ? "program" : "programs",
                            fmt::join(rule_names(), " ")));
  if (has_missing_ranks(programs)) {
    session.print(fmt::format(
        "    some ranks are missing: what they owe each other ({}) is not checked; give "
        "--rank all\n",
        fmt::join(rule_names(true), " ")));
  }
}

}  // namespace

void add_program_command(CLI::App& app, Session& session,
                         const std::vector<ConfigOverride>& overrides) {
  auto arguments = std::make_shared<ProgramArguments>();  // owned by the command's callback
  CLI::App* const command =
      app.add_subcommand("program", "Print the program of a rank, or check a file of programs");
  CLI::Option* const config =
      command->add_option("config", arguments->config, "config file (TOML)");
  CLI::Option* const check =
      command->add_option("--check", arguments->check, "verify the programs in this file")
          ->check(CLI::ExistingFile);
  config->excludes(check);
  command->add_option("--rank", arguments->rank, "a rank, or all")->excludes(check);
  command->add_option("--kind", arguments->kind, "train or eval")
      ->check(CLI::IsMember({"train", "eval"}))
      ->excludes(check);
  command->add_flag("--json", arguments->is_json, "every instruction as JSON")->excludes(check);
  command->footer(
      "Any key of the config file can be given as --section.key VALUE.\n"
      "Example: trireme program configs/tiny.toml --rank all > p.txt && trireme program --check "
      "p.txt");
  command->callback([arguments, &overrides, &session] {
    if (!arguments->check.empty()) return check_file(arguments->check, session);
    if (arguments->config.empty()) {
      throw UsageError("[command line] program: needs a config file, or --check FILE");
    }
    print_programs(*arguments, overrides, session);
  });
}

}  // namespace trireme
