#include "trireme/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/overrides.h"
#include "trireme/cli/safe_text.h"
#include "trireme/kernels/cpu/isa.h"
#include "trireme/kernels/cpu/matmul.h"

namespace trireme {
namespace {

std::string version_text() {
  return fmt::format("trireme {}\n{} ({})\nkernels {}\n", TRIREME_VERSION,
                     kernels::matmul_library_version(), kernels::matmul_instruction_set(),
                     kernels::isa_name());
}

int fail(const Session& session, int exit_code, std::string message) {
  if (!session.is_reported) print_error(session, std::move(message));
  return exit_code;
}

/// Of several processes one speaks, and one command is for several.
bool is_for_another_process(const std::vector<std::string>& arguments, const Launch& launch) {
  if (!launch.has_many() || (!arguments.empty() && arguments.front() == "train")) return false;
  if (launch.rank != 0) return true;
  throw UsageError(fmt::format(
      "[command line] {} has started {} processes of \"trireme {}\": only train runs on several; "
      "start it without {}",
      launch.launcher, launch.size, arguments.empty() ? "" : arguments.front(), launch.launcher));
}

/// Only a command that reads a config file takes overrides; for the others they are unknown
/// options, which the parser names.
bool takes_overrides(const std::vector<std::string>& arguments) {
  return !arguments.empty() && (arguments.front() == "train" || arguments.front() == "program" ||
                                arguments.front() == "simulate");
}

/// Runs the tree; returns the exit code of --help and --version, which are exceptions to the
/// parser.
int parse(CLI::App& app, std::vector<std::string> arguments, const Session& session) {
  const bool has_command = !arguments.empty() && !arguments.front().starts_with('-');
  const std::string command = has_command ? arguments.front() + " " : "";
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    session.print(chosen.empty() ? app.help() : chosen.front()->help("trireme"));
  } catch (const CLI::CallForVersion&) {
    session.print(version_text());
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("[command line] {}; see trireme {}--help", error.what(), command));
  }
  return session.exit_code;
}

constexpr std::array<std::string_view, 9> kCommands = {
    "train", "program", "generate", "eval", "plan", "simulate", "predict", "calibrate", "convert"};

void check_command(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return;
  const std::string& name = arguments.front();
  if (std::find(kCommands.begin(), kCommands.end(), name) != kCommands.end()) return;
  throw UsageError(fmt::format("[command line] {}: no such command; did you mean {}?", name,
                               nearest_name(name, kCommands)));
}

int run_command(const std::vector<std::string>& arguments, Session& session) {
  check_command(arguments);
  const SplitArguments split = takes_overrides(arguments)
                                   ? split_overrides(arguments)
                                   : SplitArguments{.plain = arguments, .overrides = {}};
  CLI::App app("Pre-trains language models on many ranks, and says beforehand what it will do.",
               "trireme");
  app.set_version_flag("--version", "trireme");
  app.require_subcommand(1);
  app.footer("Example: trireme train configs/demo.toml --run.steps 20");
  add_train_command(app, session, split.overrides);
  add_program_command(app, session, split.overrides);
  add_generate_command(app, session);
  add_eval_command(app, session);
  add_plan_command(app, session);
  add_simulate_command(app, session, split.overrides);
  add_predict_command(app, session);
  add_calibrate_command(app, session);
  add_unbuilt_commands(app);
  return parse(app, split.plain, session);
}

}  // namespace

void print_error(const Session& session, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fflush(session.out);
  const std::string line = fmt::format("trireme: {}\n", safe_text(message));
  std::fwrite(line.data(), 1, line.size(), session.err);  // who has closed it does not read it
}

int run_cli(const std::vector<std::string>& arguments, Session& session) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere{nullptr, std::fclose};
  try {
    if (session.environment) session.launch = read_launch(session.environment);
    if (session.launch.rank != 0) {  // one process speaks
      nowhere.reset(std::fopen("/dev/null", "w"));
      session.out = nowhere.get();
    }
    // A launcher passes what is printed through a terminal of its own.
    if (!session.launch.launcher.empty()) session.is_terminal = false;
    if (is_for_another_process(arguments, session.launch)) return kExitDone;
    const int exit_code = run_command(arguments, session);
    // A run that trains goes on without a reader; of other commands the output is the point.
    const auto has = [&](std::string_view word) {
      return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
    };
    const bool is_training =
        !arguments.empty() && arguments.front() == "train" && !has("--dry-run");
    if (std::fflush(session.out) != 0 || std::ferror(session.out) != 0) {
      if (!is_training)
        throw ResourceError(
            "[output] what was printed could not be written; free the disk or pipe");
    }
    return exit_code;
  } catch (const UsageError& error) {
    return fail(session, kExitUsage, error.what());
  } catch (const InternalError& error) {
    return fail(session, kExitFailure,
                fmt::format("[internal] {}: a fault of Trireme; please report it", error.what()));
  } catch (const std::bad_alloc&) {
    return fail(session, kExitFailure,
                "[memory] the system has none left; make the model, the batch or the number of "
                "ranks smaller");
  } catch (const std::exception& error) {
    return fail(session, kExitFailure, error.what());
  }
}

void add_unbuilt_commands(CLI::App& app) {
  struct Unbuilt {
    const char* name;
    const char* purpose;
  };
  for (const auto& [name, purpose] : {Unbuilt{"convert", "convert checkpoints and data sets"}}) {
    CLI::App* const command = app.add_subcommand(name, fmt::format("{} (not built yet)", purpose));
    command->allow_extras();
    command->footer(fmt::format("Example: none yet; trireme {} is refused.", name));
    command->callback([name = std::string(name)] {
      throw UsageError(
          fmt::format("[command line] {}: this command is not built yet; built are train, program, "
                      "generate, eval, plan, simulate, predict and calibrate",
                      name));
    });
  }
}

}  // namespace trireme
