#include "trireme/cost/estimate.h"

#include "trireme/cost/memory.h"
#include "trireme/cost/step_time.h"

namespace trireme {

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
