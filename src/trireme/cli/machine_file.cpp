#include "trireme/cli/machine_file.h"

#include <string>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/calibrate/calibrate.h"
#include "trireme/cli/run_log.h"
#include "trireme/cost/cluster.h"

namespace trireme {
namespace {

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

}  // namespace

std::optional<QuantityFile> measure_this_machine(double minutes,
                                                 const std::atomic<int>& stop_signal,
                                                 const Session& session) {
  const Machine machine = this_machine();
  session.print(fmt::format("{}, {} {}, {} of memory; about {:g} min\n", machine.cpu,
                            machine.num_cores, machine.num_cores == 1 ? "core" : "cores",
                            format_bytes(static_cast<std::int64_t>(machine.memory_bytes)),
                            minutes));
  constexpr double kQuiet = 0.5;
  if (machine.load > kQuiet) {
    session.note(fmt::format(
        "other programs run on this machine (load average {:.1f}): what is measured beside them "
        "will be too slow, and predictions as well; measure again when it is quiet",
        machine.load));
  }
  CalibrationProgress progress(session);
  const std::optional<Measurements> measurements =
      calibrate({.probes = standard_probes(machine.num_cores),
                 .seconds = 60 * minutes,
                 .resets_affinity = session.resets_affinity,
                 .stop_signal = &stop_signal,
                 .progress = [&](const std::string& what, int number, int count, int round) {
                   progress.show(what, number, count, round);
                 }});
  if (!measurements) return std::nullopt;
  return measured_file(machine, *measurements);
}

void write_machine_file(const std::filesystem::path& path, const QuantityFile& file) {
  replace_file(path, fmt::format("# Made by trireme calibrate on {}.\n", this_machine().cpu) +
                         quantity_file_text(file, cluster_rules()));
}

}  // namespace trireme
