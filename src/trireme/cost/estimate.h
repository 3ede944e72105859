// Memory and time of a layout in closed form.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/cost/profile.h"
#include "trireme/cost/stages.h"
#include "trireme/cost/workload.h"

namespace trireme {

/// Bytes that one rank of a stage holds at its peak.
struct StageBytes {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;    ///< master copies and moments
  double activations = 0;  ///< kept for the backward passes of all micro-batches in flight
  double logits = 0;       ///< of the last stage, with their gradient
  double buffers = 0;      ///< of communication and of the piece that is being computed
  bool operator==(const StageBytes&) const = default;
  [[nodiscard]] double state() const { return parameters + gradients + optimizer; }
  [[nodiscard]] double total() const {
    return parameters + gradients + optimizer + activations + logits + buffers;
  }
};

/// Seconds of a step on its critical path, by what takes them.
struct StepSeconds {
  double compute = 0;  ///< of the slowest stage, all its micro-batches
  double bubble = 0;   ///< in which the slowest stage waits for the others
  double tp = 0;       ///< communication that nothing hides, by axis
  double cp = 0;
  double pp = 0;
  double dp = 0;
  double optimizer = 0;
  double fixed = 0;  ///< data loading, barriers, logging
  bool operator==(const StepSeconds&) const = default;
  [[nodiscard]] double exposed() const { return tp + cp + pp + dp; }
  [[nodiscard]] double total() const {
    return compute + bubble + tp + cp + pp + dp + optimizer + fixed;
  }
};

/// The terms of a step and their names.
struct StepTerm {
  std::string_view name;
  double StepSeconds::*seconds;
};
inline constexpr std::array kStepTerms = {
    StepTerm{"compute", &StepSeconds::compute},     StepTerm{"bubble", &StepSeconds::bubble},
    StepTerm{"exposed tp", &StepSeconds::tp},       StepTerm{"exposed cp", &StepSeconds::cp},
    StepTerm{"exposed pp", &StepSeconds::pp},       StepTerm{"exposed dp", &StepSeconds::dp},
    StepTerm{"optimizer", &StepSeconds::optimizer}, StepTerm{"fixed", &StepSeconds::fixed}};

struct Estimate {
  StepSeconds seconds;
  StageBytes first;    ///< of the first stage
  StageBytes fullest;  ///< of the stage that needs most
  int fullest_stage = 0;
  double overhead_bytes = 0;  ///< outside of the framework's allocator: context, communicators
  double needed_bytes = 0;    ///< of the device: fullest x allocator factor + overhead
  bool fits = false;

  bool operator==(const Estimate&) const = default;
};

/// The profile of a framework that computes in `precision`: in fp32 everything that it keeps or
/// moves in 16 bits takes 32, and parameters are their own masters; else the same.
[[nodiscard]] Profile for_precision(Profile profile, ComputePrecision precision);

/// What estimate() says of memory; seconds are left 0. `shares` as stage_shares() gives them.
[[nodiscard]] Estimate estimate_memory(const Workload& workload, const Cluster& cluster,
                                       const Profile& profile,
                                       const std::vector<StageShare>& shares);

/// `profile` is that of the workload's precision. At least 100,000 a second on one core (bench:
/// BM_Estimate).
[[nodiscard]] Estimate estimate(const Workload& workload, const Cluster& cluster,
                                const Profile& profile);

}  // namespace trireme
