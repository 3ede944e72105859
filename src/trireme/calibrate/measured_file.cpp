#include "trireme/calibrate/measured_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/cost/cluster.h"

namespace trireme {
namespace {

double flops_of(const KernelCall& call) {
  switch (call.kernel) {
    case Kernel::kAttentionForward:
      return 2 * call.work();  // 4 * D of each visible pair: half of all
    case Kernel::kAttentionBackward:
      return 5 * call.work();
    default:
      return 2 * call.work();
  }
}

bool is_product(Kernel kernel) {
  return kernel == Kernel::kProductForward || kernel == Kernel::kProductInput ||
         kernel == Kernel::kProductWeight || kernel == Kernel::kProductWeightAdd;
}

/// FLOP/s of a core while all compute, ascending.
template <typename IsMeant>
std::vector<double> rates(const Measurements& measurements, int bits, int num_cores,
                          IsMeant is_meant) {
  std::vector<double> result;
  for (const auto& [of, seconds] : measurements.kernels) {
    if (of.bits == bits && of.threads == 1 && of.ranks == num_cores && is_meant(of.call.kernel))
      result.push_back(flops_of(of.call) / seconds);
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// Writes the quantities of one file.
class Writer {
 public:
  Writer(const Machine& machine, const Measurements& measurements)
      : machine_(machine), measurements_(measurements) {}

  QuantityFile file() {
    file_.name = "calibrated";
    file_.texts = {{"name", "this-machine"},
                   {"device_name", fmt::format("core of {}", machine_.cpu)},
                   {"backend", "cpu"}};
    add_device();
    add_links();
    add_machine();
    add_kernels();
    add_transfers();
    return std::move(file_);
  }

 private:
  void add(std::string_view key, double value, Evidence kind, const std::string& source) {
    const std::vector<QuantityRule>& rules = cluster_rules().quantities;
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const QuantityRule& each) { return each.key == key; });
    file_.quantities.emplace(key, Quantity{.value = std::clamp(value, rule->min, rule->max),
                                           .unit = std::string(rule->unit),
                                           .kind = kind,
                                           .source = source});
  }
  /// Four digits: more would be noise.
  static double rounded(double value) { return std::stod(fmt::format("{:.3e}", value)); }
  void measured(std::string_view key, double value, const std::string& what) {
    add(key, rounded(value), Evidence::kMeasured, fmt::format("trireme calibrate: {}", what));
  }
  void follows(std::string_view key, double value, const std::string& why) {
    add(key, value, Evidence::kDatasheet, why);
  }

  [[nodiscard]] std::string threads_text() const {
    return fmt::format("{}, {} {} of this process, one thread each", machine_.cpu,
                       machine_.num_cores, machine_.num_cores == 1 ? "core" : "cores");
  }

  void add_device() {
    const int cores = machine_.num_cores;
    const auto products16 = rates(measurements_, 16, cores, is_product);
    const auto products32 = rates(measurements_, 32, cores, is_product);
    const auto best = [](const std::vector<double>& of) { return of.empty() ? 0 : of.back(); };
    const auto middle = [](const std::vector<double>& of) {
      return of.empty() ? 0 : of[of.size() / 2];
    };
    const double peak = best(products16);
    const auto share_of_peak = [&](Kernel kernel) {
      const auto of = rates(measurements_, 16, cores, [&](Kernel each) { return each == kernel; });
      return peak > 0 ? middle(of) / peak : 0;
    };
    measured("device.peak_bf16", peak, "best bf16 product; " + threads_text());
    measured("device.peak_fp32", best(products32), "best fp32 product; " + threads_text());
    follows("device.memory", machine_.memory_bytes / cores, "memory of the machine / cores");
    measured("device.memory_bandwidth", measurements_.copy_bytes_per_second,
             "copies of 64 MiB, read and written, by all cores at once");
    follows("device.memory_efficiency", 1, "memory_bandwidth is itself that of a plain copy");
    follows("device.multiprocessors", 1, "a core");
    follows("device.misaligned_efficiency", 1,
            "no such loss: the tables kernels.product_* have it");
    measured("device.product_efficiency", peak > 0 ? middle(products16) / peak : 0,
             "median of the bf16 products in the tables kernels.product_*");
    follows("device.product_half_depth", 0, "no such loss: the tables kernels.product_* have it");
    measured("device.attention_forward_efficiency", share_of_peak(Kernel::kAttentionForward),
             "median of kernels.attention_forward, causal FLOPs");
    measured("device.attention_backward_efficiency", share_of_peak(Kernel::kAttentionBackward),
             "median of kernels.attention_backward, causal FLOPs");
    measured("device.kernel_floor", measurements_.instruction_seconds,
             "between two instructions of the executor");
  }

  void add_links() {
    double message = 0, ring = 0, latency = 0, latency_bytes = 1e300, most = 0;
    for (const auto& [call, seconds] : measurements_.transfers) {
      if (call.ranks != 2) continue;
      if (call.transfers == Transfers::kMessage && call.bytes >= most) {
        most = call.bytes;
        message = call.bytes / seconds;
      }
      if (call.transfers == Transfers::kAllReduce && call.bytes < latency_bytes) {
        latency_bytes = call.bytes;
        latency = seconds / 2;
      }
      if (call.transfers == Transfers::kAllReduce) ring = std::max(ring, call.bytes / seconds);
    }
    const std::string one = "one machine, no network: as between its cores";
    measured("node.link_bandwidth", message, "the longest message between two thread ranks");
    measured("node.link_efficiency", message > 0 ? ring / message : 0,
             "all-reduce of two thread ranks, of that");
    measured("node.link_latency", latency, "half of the smallest all-reduce of two thread ranks");
    follows("node.devices", machine_.num_cores, "cores of this process");
    follows("network.nics", 1, one);
    follows("network.nic_bandwidth", message, one);
    follows("network.nic_efficiency", 1, one);
    follows("network.latency", latency, one);
    const std::string shared =
        "collectives of thread ranks run on the cores that compute: each at half speed";
    follows("overlap.compute_slowdown", 1, shared);
    follows("overlap.communication_slowdown", 1, shared);
  }

  void add_machine() {
    follows(kCoresKey, machine_.num_cores, "cores of this process");
    measured(kInstructionKey, measurements_.instruction_seconds,
             "from the end of one instruction to the start of the next");
    measured(kStepKey, measurements_.step_seconds, "of a step, outside of its instructions");
    measured(kWakeKey, measurements_.wake_seconds, "half a round trip of two threads that sleep");
  }

  QuantityTable& table(std::string_view key, const std::string& what) {
    QuantityTable& result = file_.tables[std::string(key)];
    if (!result.columns.empty()) return result;
    const std::vector<TableRule>& rules = cluster_rules().tables;
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const TableRule& each) { return each.key == key; });
    result.columns = {rule->columns.begin(), rule->columns.end()};
    result.kind = Evidence::kMeasured;
    result.source = fmt::format("trireme calibrate: {}; {}", what, threads_text());
    return result;
  }

  void add_kernels() {
    for (const auto& [of, seconds] : measurements_.kernels) {
      const KernelTable& kernel = kernel_table(of.call.kernel);
      std::vector<double> row = {static_cast<double>(of.bits), static_cast<double>(of.threads),
                                 static_cast<double>(of.ranks)};
      row.insert(row.end(), of.call.sizes.begin(), of.call.sizes.begin() + kernel.num_sizes);
      row.push_back(rounded(seconds));
      table(kernel.key, "median in steps of small models").rows.push_back(std::move(row));
    }
  }

  void add_transfers() {
    for (const auto& [call, seconds] : measurements_.transfers) {
      table(transfers_key(call.transfers), "thread ranks that do nothing else")
          .rows.push_back({call.ranks, call.bytes, rounded(seconds)});
    }
  }

  const Machine& machine_;
  const Measurements& measurements_;
  QuantityFile file_;
};

}  // namespace

QuantityFile measured_file(const Machine& machine, const Measurements& measurements) {
  return Writer(machine, measurements).file();
}

}  // namespace trireme
