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
#include "trireme/base/units.h"
#include "trireme/calibrate/calibrate.h"
#include "trireme/cli/cli.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/run_log.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/signals.h"
#include "trireme/cli/validators.h"
#include "trireme/cost/cluster.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

struct CalibrateArguments {
  std::string path;
  double minutes = 1;
};

/// Before the time is spent: the file can be written, and who has one there is told.
void check_target(const std::string& path, const Session& session) {
  std::error_code error;
  if (!path.ends_with(".toml")) {
    throw UsageError(fmt::format(
        "[command line] --output {}: must end in .toml, so that --cluster takes it for a file; "
        "use {}.toml",
        safe_text(path), safe_text(path)));
  }
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(folder, error)) {
    throw UsageError(fmt::format("[command line] --output {}: {} is no folder; make it first",
                                 safe_text(path), safe_text(folder.string())));
  }
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw UsageError(fmt::format("[command line] --output {}: is no regular file; name another",
                                 safe_text(path)));
  }
  if (std::filesystem::exists(status))
    session.note(fmt::format("{} exists and will be replaced", safe_text(path)));
}

/// On a terminal one line that is rewritten; else a line for each round.
class CalibrationProgress {
 public:
  explicit CalibrationProgress(const Session& session) : session_(session) {}
  CalibrationProgress(const CalibrationProgress&) = delete;
  CalibrationProgress& operator=(const CalibrationProgress&) = delete;
  ~CalibrationProgress() {
    if (session_.is_terminal && has_line_) session_.print("\n");
  }

  void show(const std::string& what, int number, int count, int round) {
    if (session_.is_terminal) {
      const std::string line = fmt::format("round {}  {:>3}/{}  {}", round, number, count, what);
      const auto width = static_cast<std::size_t>(session_.columns > 0 ? session_.columns - 1 : 79);
      session_.print(fmt::format("\r\x1b[K{}", line.substr(0, width)));
      has_line_ = true;
    } else if (number == 1) {
      session_.print(fmt::format("round {}: {} measurements\n", round, count));
    }
  }

 private:
  const Session& session_;
  bool has_line_ = false;
};

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
  const Machine machine = this_machine();
  session.print(fmt::format("{}, {} {}, {} of memory; about {:g} min\n", machine.cpu,
                            machine.num_cores, machine.num_cores == 1 ? "core" : "cores",
                            format_bytes(static_cast<std::int64_t>(machine.memory_bytes)),
                            arguments.minutes));
  constexpr double kQuiet = 0.5;
  if (machine.load > kQuiet) {
    session.note(fmt::format(
        "other programs run on this machine (load average {:.1f}): what is measured beside them "
        "will be too slow, and predictions as well; measure again when it is quiet",
        machine.load));
  }
  const StopSignals signals;
  std::optional<Measurements> measurements;
  {
    CalibrationProgress progress(session);
    measurements =
        calibrate({.probes = standard_probes(machine.num_cores),
                   .seconds = 60 * arguments.minutes,
                   .resets_affinity = session.resets_affinity,
                   .stop_signal = &signals.number(),
                   .progress = [&](const std::string& what, int number, int count, int round) {
                     progress.show(what, number, count, round);
                   }});
  }
  if (!measurements) {
    session.note(fmt::format("stopped: {} is not written", safe_text(arguments.path)));
    session.exit_code = 128 + signals.number().load();
    return;
  }
  const QuantityFile file = measured_file(machine, *measurements);
  replace_file(arguments.path, fmt::format("# Made by trireme calibrate on {}.\n", machine.cpu) +
                                   quantity_file_text(file, cluster_rules()));
  session.print(summary(file) + fmt::format("wrote {}\n", safe_text(arguments.path)));
}

}  // namespace

void add_calibrate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<CalibrateArguments>();  // owned by the command's callback
  CLI::App* const command =
      app.add_subcommand("calibrate", "Measure this machine into a cluster file");
  command->add_option("-o,--output", arguments->path, "file to write, NAME.toml")
      ->required()
      ->check(non_empty("file"));
  command
      ->add_option("--minutes", arguments->minutes,
                   "time for whole rounds of all measurements; one round always runs (1)")
      ->check(CLI::Range(0.0, 1440.0))
      ->check([](const std::string& text) {
        return text.find("nan") == std::string::npos && text.find("NaN") == std::string::npos
                   ? std::string()
                   : text + ": must be a number of minutes";
      });
  command->footer(
      "Runs short training steps of small models on thread ranks and times each instruction, then\n"
      "collectives and messages between threads. A number is a median of all rounds; let nothing\n"
      "else run meanwhile. Ranks that are processes (mpirun) are not measured.\n"
      "Example: trireme calibrate -o this-machine.toml && trireme simulate configs/tiny.toml "
      "--cluster this-machine.toml");
  command->callback([arguments, &session] { run_calibrate(*arguments, session); });
}

}  // namespace trireme
