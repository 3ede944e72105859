#include "trireme/calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "trireme/execute/cpu/threads.h"
#include "trireme/kernels/cpu/matmul.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// A number of each round; 0 means that the round has none.
class Rounds {
 public:
  void add(double of_round) {
    if (of_round > 0) values_.push_back(of_round);
  }
  /// The median; of an even number of rounds the lower one.
  [[nodiscard]] double result() const {
    std::vector<double> values = values_;
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[(values.size() - 1) / 2];
  }

 private:
  std::vector<double> values_;
};

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
    return result();
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
    copy_bytes_per_second_.add(measured_copy_bytes_per_second(num_available_cores()));
    wake_seconds_.add(measured_wake_seconds());
    keep(times, transfers);
    return true;
  }

  void keep(const ProbeTimes& times, const TransferTimes& transfers) {
    for (const auto& [of, seconds] : times.kernels) kernels_[of].add(median(seconds));
    for (const auto& [call, seconds] : transfers) transfers_[call].add(median(seconds));
    instruction_seconds_.add(median(times.instruction));
    step_seconds_.add(median(times.step));
  }

  [[nodiscard]] Measurements result() const {
    Measurements result{.instruction_seconds = instruction_seconds_.result(),
                        .step_seconds = step_seconds_.result(),
                        .wake_seconds = wake_seconds_.result(),
                        .copy_bytes_per_second = copy_bytes_per_second_.result()};
    for (const auto& [of, rounds] : kernels_) result.kernels[of] = rounds.result();
    for (const auto& [call, rounds] : transfers_) result.transfers[call] = rounds.result();
    return result;
  }

  const CalibrationOptions& options_;
  std::map<KernelCase, Rounds> kernels_;
  std::map<TransferCall, Rounds> transfers_;
  Rounds instruction_seconds_, step_seconds_, wake_seconds_, copy_bytes_per_second_;
  int round_ = 0, number_ = 0;
};

}  // namespace

std::optional<Measurements> calibrate(const CalibrationOptions& options) {
  kernels::warm_up_matmul();
  return Calibration(options).run();
}

}  // namespace trireme
