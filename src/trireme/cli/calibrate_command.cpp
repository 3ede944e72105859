// trireme calibrate
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/cli/cli.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/machine_file.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/signals.h"
#include "trireme/cli/validators.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

struct CalibrateArguments {
  std::string path;
  double minutes = 1;
};

/// Before the time is spent: refuses a name that --cluster would not take for a file, and notes
/// that an existing file will be replaced.
void check_target(const std::string& path, const Session& session) {
  std::error_code error;
  if (!path.ends_with(".toml")) {
    throw UsageError(fmt::format(
        "[command line] --output {}: must end in .toml, so that --cluster takes it for a file; "
        "use {}.toml",
        safe_text(path), safe_text(path)));
  }
  if (std::filesystem::exists(path, error))
    session.note(fmt::format("{} exists and will be replaced", safe_text(path)));
}

std::string summary(const QuantityFile& file) {
  std::size_t num_rows = 0;
  for (const auto& [key, table] : file.tables) num_rows += table.rows.size();
  const auto giga = [&](std::string_view key) { return file.value(key) * 1e-9; };
  const std::vector<std::vector<std::string>> rows = {
      {"fp32 products", fmt::format("{:.1f} GFLOP/s", giga("device.peak_fp32"))},
      {"bf16 products", fmt::format("{:.1f} GFLOP/s", giga("device.peak_bf16"))},
      {"copies", fmt::format("{:.2f} GB/s", giga("device.memory_bandwidth"))},
      {"messages", fmt::format("{:.2f} GB/s", giga("node.link_bandwidth"))}};
  return text_table({"of each core, all busy", ""}, rows) +
         fmt::format("{} rows in {} tables\n", num_rows, file.tables.size());
}

void run_calibrate(const CalibrateArguments& arguments, Session& session) {
  check_target(arguments.path, session);
  const StopSignals signals;
  const auto file = measure_this_machine(arguments.minutes, signals.number(), session);
  if (!file) {
    session.note(fmt::format("stopped: {} is not written", safe_text(arguments.path)));
    session.exit_code = kExitSignalBase + signals.number().load();
    return;
  }
  write_machine_file(arguments.path, *file);
  session.print(summary(*file) + fmt::format("wrote {}\n", safe_text(arguments.path)));
}

}  // namespace

void add_calibrate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<CalibrateArguments>();  // owned by the command's callback
  CLI::App* const command =
      app.add_subcommand("calibrate", "Measure this machine into a cluster file");
  command->add_option("-o,--output", arguments->path, "file to write, NAME.toml")
      ->required()
      ->check(output_file());
  command
      ->add_option("--minutes", arguments->minutes,
                   "time for whole rounds of all measurements; one round always runs (1)")
      ->check(number_up_to(1440, true));
  command->footer(
      "Runs short training steps of small models on thread ranks and times each instruction, then\n"
      "collectives and messages between threads. A number is a median of all rounds; let nothing\n"
      "else run meanwhile. Ranks that are processes (mpirun) are not measured.\n"
      "Example: trireme calibrate -o this-machine.toml && trireme simulate configs/tiny.toml "
      "--cluster this-machine.toml");
  command->callback([arguments, &session] { run_calibrate(*arguments, session); });
}

}  // namespace trireme
