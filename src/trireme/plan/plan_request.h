// What is to be planned: a model on devices, and what the layouts may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

  /// The layout must be one that `trireme train` takes.
  [[nodiscard]] bool is_for_trireme() const { return profile.name == "trireme"; }
  [[nodiscard]] int nodes() const {
    return (devices + cluster.node_devices - 1) / cluster.node_devices;
  }
};

/// Throws UsageError naming field, value, rule and remedy for numbers out of range, for a schedule
/// that the framework does not have, and for what Trireme does not train.
void check_request(const PlanRequest& request);

}  // namespace trireme
