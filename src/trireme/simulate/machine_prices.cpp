#include "trireme/simulate/machine_prices.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

constexpr double kLeast = 1e-9;  // of seconds and of work, so that they have a logarithm

double log_of(double value) {
  return std::log(std::max(value, kLeast));
}

double line(double from, double to, double share) {
  return from + (to - from) * share;
}

/// Of samples that ascend in work; beyond the ends seconds are proportional to work.
template <typename Samples>
double seconds_on_line(const Samples& samples, double log_work) {
  if (log_work <= samples.front().log_work)
    return std::exp(samples.front().log_seconds + log_work - samples.front().log_work);
  if (log_work >= samples.back().log_work)
    return std::exp(samples.back().log_seconds + log_work - samples.back().log_work);
  std::size_t upper = 1;
  while (samples[upper].log_work <= log_work) ++upper;
  const auto& low = samples[upper - 1];
  const auto& high = samples[upper];
  return std::exp(line(low.log_seconds, high.log_seconds,
                       (log_work - low.log_work) / (high.log_work - low.log_work)));
}

}  // namespace

MachinePrices::MachinePrices(const Cluster& cluster) : file_name_(cluster.file.name) {
  const QuantityFile& file = cluster.file;
  if (!file.quantities.contains(kCoresKey)) refuse_missing(kCoresKey);
  num_cores_ = static_cast<int>(file.value(kCoresKey));
  instruction_seconds_ = file.value_or(kInstructionKey, 0);
  step_seconds_ = file.value_or(kStepKey, 0);
  wake_seconds_ = file.value_or(kWakeKey, 0);
  for (int k = 0; k < kNumKernels; ++k) read_kernel(file, kernel_table(static_cast<Kernel>(k)));
  for (int t = 0; t < kNumTransfers; ++t) {
    const auto transfers = static_cast<Transfers>(t);
    const QuantityTable* const table = file.table(transfers_key(transfers));
    if (table == nullptr) continue;
    for (const std::vector<double>& row : table->rows) {
      transfers_[{transfers, static_cast<int>(row[0])}].push_back(
          {.log_work = log_of(row[1]), .log_seconds = log_of(row[2])});
    }
  }
  const auto ascend = [](auto& all) {
    for (auto& [key, samples] : all) {
      std::sort(samples.begin(), samples.end(),
                [](const Sample& a, const Sample& b) { return a.log_work < b.log_work; });
    }
  };
  ascend(kernels_);
  ascend(transfers_);
}

void MachinePrices::read_kernel(const QuantityFile& file, const KernelTable& table) {
  constexpr std::size_t kFirstSize = 3;  // after bits, threads and ranks
  const QuantityTable* const measured = file.table(table.key);
  if (measured == nullptr) return;
  for (const std::vector<double>& row : measured->rows) {
    KernelCall call{.kernel = table.kernel};
    Sample sample;
    for (std::size_t i = 0; i < static_cast<std::size_t>(table.num_sizes); ++i) {
      call.sizes.at(i) = row[kFirstSize + i];
      sample.log_sizes.at(i) = log_of(call.sizes.at(i));
    }
    sample.log_work = log_of(call.work());
    sample.log_seconds = log_of(row.back());
    const Team team{.bits = static_cast<int>(row[0]),
                    .threads = static_cast<int>(row[1]),
                    .ranks = static_cast<int>(row[2])};
    kernels_[{table.kernel, team}].push_back(sample);
  }
}

void MachinePrices::refuse_missing(std::string_view key) const {
  throw UsageError(
      fmt::format("[{}] {} is missing: programs are priced by what trireme calibrate has measured; "
                  "make the file with trireme calibrate -o FILE.toml on the machine in question",
                  file_name_, key));
}

const MachinePrices::Samples* MachinePrices::find(Kernel kernel, const Team& team) const {
  const auto found = kernels_.find({kernel, team});
  return found == kernels_.end() ? nullptr : &found->second;
}

double MachinePrices::seconds(const Samples& samples, const KernelCall& call) const {
  const double log_work = log_of(call.work());
  const KernelTable& table = kernel_table(call.kernel);
  if (table.num_sizes == 1) return seconds_on_line(samples, log_work);
  constexpr double kNear = 1e-6;
  double sum = 0, weights = 0;
  for (const Sample& sample : samples) {
    double distance = kNear;
    for (std::size_t i = 0; i < static_cast<std::size_t>(table.num_sizes); ++i) {
      const double difference = sample.log_sizes.at(i) - log_of(call.sizes.at(i));
      distance += difference * difference;
    }
    const double weight = 1 / (distance * distance);
    sum += weight * (sample.log_seconds - sample.log_work);
    weights += weight;
  }
  return std::exp(sum / weights + log_work);
}

double MachinePrices::team_seconds(const KernelCall& call, int bits, int num_threads) const {
  const Samples* const one = find(call.kernel, {.bits = bits, .threads = 1, .ranks = num_cores_});
  const Samples* const all = find(call.kernel, {.bits = bits, .threads = num_cores_, .ranks = 1});
  if (one == nullptr && all == nullptr) refuse_missing(kernel_table(call.kernel).key);
  if (num_threads >= num_cores_ && all != nullptr) return seconds(*all, call);
  if (one == nullptr) return seconds(*all, call) * num_cores_ / num_threads;
  const double single = seconds(*one, call);
  if (num_threads == 1) return single;
  if (all == nullptr) return single / num_threads;
  return std::exp(line(std::log(single), std::log(seconds(*all, call)),
                       std::log(num_threads) / std::log(num_cores_)));
}

CoreSeconds MachinePrices::kernel_seconds(const KernelCall& call, int bits, int num_threads) const {
  const double busy = team_seconds(call, bits, num_threads);
  if (num_threads > 1) return {.alone = busy, .busy = busy};
  const Samples* const one = find(call.kernel, {.bits = bits, .threads = 1, .ranks = 1});
  return {.alone = one == nullptr ? busy : std::min(busy, seconds(*one, call)), .busy = busy};
}

double MachinePrices::transfer_seconds(const TransferCall& call) const {
  const Samples* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [key, samples] : transfers_) {
    if (key.first != call.transfers) continue;
    const double distance = std::abs(std::log(key.second / call.ranks));
    if (distance >= least) continue;
    least = distance;
    nearest = &samples;
  }
  if (nearest == nullptr) refuse_missing(transfers_key(call.transfers));
  const double log_bytes = log_of(call.bytes);
  if (log_bytes <= nearest->front().log_work) return std::exp(nearest->front().log_seconds);
  return seconds_on_line(*nearest, log_bytes);
}

}  // namespace trireme
