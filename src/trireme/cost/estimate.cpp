#include "trireme/cost/estimate.h"

#include <algorithm>

#include "trireme/cost/memory.h"
#include "trireme/cost/step_time.h"

namespace trireme {

Profile for_precision(Profile profile, ComputePrecision precision) {
  if (precision != ComputePrecision::kFp32) return profile;
  constexpr double kBytes = 4;
  constexpr double kMoments = 8;
  for (double Profile::*const of_16_bits :
       {&Profile::sequence_forward_bytes, &Profile::sequence_backward_bytes,
        &Profile::hidden_forward_bytes, &Profile::hidden_backward_bytes,
        &Profile::ffn_forward_bytes, &Profile::ffn_backward_bytes,
        &Profile::transient_gradient_bytes, &Profile::kept_sequence_bytes, &Profile::kept_tp_bytes,
        &Profile::kept_query_bytes, &Profile::kept_key_value_bytes, &Profile::kept_ffn_bytes,
        &Profile::kept_gate_bytes, &Profile::kept_score_bytes, &Profile::kept_gathered_bytes}) {
    profile.*of_16_bits *= 2;
  }
  profile.parameter_bytes = kBytes;
  profile.parameter_wire_bytes = kBytes;
  profile.optimizer_state_bytes = std::min(profile.optimizer_state_bytes, kMoments);
  return profile;
}

Estimate estimate_memory(const Workload& workload, const Cluster& cluster, const Profile& profile,
                         const std::vector<StageShare>& shares) {
  Estimate result;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const int rank = static_cast<int>(i);
    const StageBytes bytes = stage_bytes(workload, profile, shares[i], rank);
    if (i == 0) result.first = bytes;
    if (i == 0 || bytes.total() > result.fullest.total()) {
      result.fullest = bytes;
      result.fullest_stage = rank;
    }
  }
  // Gathered inputs are kept where there is room, else gathered again.
  const double gathered = gathered_bytes(workload, profile, shares.front(), 0);
  const double usable = profile.usable_share * cluster.device.memory_bytes;
  if (result.first.total() + gathered <= usable) result.first.activations += gathered;
  result.overhead_bytes = overhead_bytes(workload, profile);
  result.needed_bytes = result.fullest.total() * profile.allocator_factor + result.overhead_bytes;
  result.fits = result.needed_bytes <= cluster.device.memory_bytes;
  return result;
}

Estimate estimate(const Workload& workload, const Cluster& cluster, const Profile& profile) {
  const std::vector<StageShare> shares = stage_shares(workload, profile.split);
  Estimate result = estimate_memory(workload, cluster, profile, shares);
  result.seconds = step_seconds(workload, cluster, profile, shares);
  return result;
}

}  // namespace trireme
