// Seconds of kernels and transfers on a calibrated machine, between and beyond what was measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/simulate/kernel_call.h"

namespace trireme {

/// How long a computation takes: by itself on the machine, and while all cores compute. Hardware
/// threads of one core, its clock and the memory are shared, so the two can differ by a factor.
struct CoreSeconds {
  double alone = 0;
  double busy = 0;
};

/// The tables of one cluster file, ready for lookups.
class MachinePrices {
 public:
  /// Throws UsageError unless `cluster` was calibrated: has the tables of `trireme calibrate`.
  explicit MachinePrices(const Cluster& cluster);

  [[nodiscard]] int num_cores() const { return num_cores_; }
  /// From the end of one instruction to the start of the next.
  [[nodiscard]] double instruction_seconds() const { return instruction_seconds_; }
  /// Of a step, before its first and after its last instruction.
  [[nodiscard]] double step_seconds() const { return step_seconds_; }
  /// Until a thread that sleeps goes on once what it waits for has happened.
  [[nodiscard]] double wake_seconds() const { return wake_seconds_; }

  /// Of a kernel in a step that computes in a type of `bits`, on a rank of `num_threads`. Products
  /// and attention: the work times the seconds per work of the measured shapes, weighted by their
  /// nearness in the logarithms of the sizes (Shepard 1968, doi 10.1145/800186.810616); the rest:
  /// a line between the logarithms of neighbouring sizes. UsageError if the file lacks the kernel.
  [[nodiscard]] CoreSeconds kernel_seconds(const KernelCall& call, int bits, int num_threads) const;
  /// From when all members have begun, with nothing else running.
  [[nodiscard]] double transfer_seconds(const TransferCall& call) const;

 private:
  struct Sample {
    std::array<double, kMaxKernelSizes> log_sizes = {};
    double log_work = 0;
    double log_seconds = 0;
  };
  using Samples = std::vector<Sample>;  ///< ascending in work
  struct Team {
    int bits = 0;
    int threads = 1;
    int ranks = 1;
    bool operator<(const Team& other) const {
      return std::tie(bits, threads, ranks) < std::tie(other.bits, other.threads, other.ranks);
    }
  };

  void read_kernel(const QuantityFile& file, const KernelTable& table);
  [[nodiscard]] const Samples* find(Kernel kernel, const Team& team) const;
  [[nodiscard]] double seconds(const Samples& samples, const KernelCall& call) const;
  [[nodiscard]] double team_seconds(const KernelCall& call, int bits, int num_threads) const;
  [[noreturn]] void refuse_missing(std::string_view key) const;

  std::string file_name_;
  int num_cores_ = 1;
  double instruction_seconds_ = 0, step_seconds_ = 0, wake_seconds_ = 0;
  std::map<std::pair<Kernel, Team>, Samples> kernels_;
  std::map<std::pair<Transfers, int>, Samples> transfers_;  ///< by ranks
};

}  // namespace trireme
