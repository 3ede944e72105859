#include "trireme/calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trireme/execute/cpu/threads.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Keeps the least of the rounds; 0 means that there was none.
void keep_least(double& least, double of_round) {
  if (of_round > 0 && (least == 0 || of_round < least)) least = of_round;
}

class Calibration {
 public:
  explicit Calibration(const CalibrationOptions& options) : options_(options) {}

  std::optional<Measurements> run() {
    const auto start = Clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    double longest_round = 0;
    do {
      const double before = elapsed();
      ++round_;
      if (!run_round()) return std::nullopt;
      longest_round = std::max(longest_round, elapsed() - before);
    } while (elapsed() + longest_round <= options_.seconds);
    return std::move(result_);
  }

 private:
  /// False: stopped.
  bool begin(const std::string& what) {
    if (options_.stop_signal != nullptr && options_.stop_signal->load() != 0) return false;
    constexpr int kNumOthers = 2;
    const int count = static_cast<int>(options_.probes.size()) + kNumOthers;
    if (options_.progress) options_.progress(what, ++number_, count, round_);
    return true;
  }

  bool run_round() {
    number_ = 0;
    ProbeTimes times;
    for (const Probe& probe : options_.probes) {
      const char* const type = probe.request.compute == DType::kBf16 ? "bf16" : "fp32";
      if (!begin(fmt::format("{}, {}, {} x {} threads", probe.name, type,
                             probe.request.layout.world(), probe.num_threads)))
        return false;
      run_probe(probe, options_.resets_affinity, times);
    }
    if (!begin("transfers between threads")) return false;
    TransferTimes transfers;
    for (const int num_ranks : {2, 4})
      measure_transfers(num_ranks, options_.transfer_bytes, transfers);
    if (!begin("memory")) return false;
    const double bandwidth = measured_copy_bytes_per_second(num_available_cores());
    result_.copy_bytes_per_second = std::max(result_.copy_bytes_per_second, bandwidth);
    keep_least(result_.wake_seconds, measured_wake_seconds());
    keep(times, transfers);
    return true;
  }

  void keep(const ProbeTimes& times, const TransferTimes& transfers) {
    for (const auto& [of, seconds] : times.kernels)
      keep_least(result_.kernels[of], median(seconds));
    for (const auto& [call, seconds] : transfers)
      keep_least(result_.transfers[call], median(seconds));
    keep_least(result_.instruction_seconds, median(times.instruction));
    keep_least(result_.step_seconds, median(times.step));
  }

  const CalibrationOptions& options_;
  Measurements result_;
  int round_ = 0, number_ = 0;
};

}  // namespace

std::optional<Measurements> calibrate(const CalibrationOptions& options) {
  return Calibration(options).run();
}

}  // namespace trireme
