// What is to be planned: a model on devices, and what the layouts may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/cost/cluster.h"
#include "trireme/cost/profile.h"
#include "trireme/cost/workload.h"
#include "trireme/model/spec.h"

namespace trireme {

/// What the user fixes or bounds; 0 or nothing = free.
struct PlanLimits {
  int tp = 0;
  int cp = 0;
  int pp = 0;
  int dp = 0;
  std::int64_t micro_batch = 0;
  std::optional<int> zero = {};
  std::optional<bool> sp = {};
  std::optional<Recompute> recompute = {};
  std::string schedule = {};
  int chunks = 0;  ///< of `schedule`
  int max_tp = 0;
  int max_cp = 0;
  int max_pp = 0;
  std::int64_t max_micro_batch = 0;

  bool operator==(const PlanLimits&) const = default;
};

/// What the trainer is told beside what is searched; it counts on a calibrated machine alone.
struct TrainerChoices {
  int threads_per_rank = 0;  ///< 0 = cores / ranks, at least 1
  double bucket_mib = 0;     ///< 0 = chosen for each layout
  CpComm cp_comm = Layout{}.cp_comm;
  DType reduce = DType::kF32;  ///< in which gradients travel
  bool decay_norms = false;
};

struct PlanRequest {
  std::string model_name;
  ModelShape model;
  std::optional<ModelSpec> spec = {};  ///< what Trireme would train, resolved
  Cluster cluster;
  Profile profile;
  int devices = 1;
  std::int64_t seq = 0;
  std::int64_t global_batch = 1;
  ComputePrecision precision = ComputePrecision::kBf16;
  PlanLimits limits = {};
  bool takes_fewer = false;  ///< on a calibrated machine: any number of ranks up to `devices`
  TrainerChoices trainer = {};

  /// The layout must be one that `trireme train` takes.
  [[nodiscard]] bool is_for_trireme() const { return profile.name == "trireme"; }
  /// That ranks of a calibrated machine share.
  [[nodiscard]] double machine_bytes() const {
    return cluster.device.memory_bytes * cluster.node_devices;
  }
  [[nodiscard]] int nodes() const {
    return (devices + cluster.node_devices - 1) / cluster.node_devices;
  }
};

/// Throws UsageError naming field, value, rule and remedy for numbers out of range, for a schedule
/// that the framework does not have, for what Trireme does not train, and for another framework on
/// a calibrated machine.
void check_request(const PlanRequest& request);

}  // namespace trireme
