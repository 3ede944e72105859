// Seconds of a step in closed form.
#pragma once

#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/cost/estimate.h"
#include "trireme/cost/stages.h"

namespace trireme {

/// What a micro-batch keeps a stage busy with. A backward pass in one piece lasts input + weight.
struct PassSeconds {
  double forward = 0;
  double input = 0;   ///< gradient of the input, with what is recomputed for it
  double weight = 0;  ///< gradient of the weights
  [[nodiscard]] double total() const { return forward + input + weight; }
};

/// The passes of a micro-batch through the parts of a pipeline, with what nothing hides.
struct PassTimes {
  PassSeconds layer;
  PassSeconds embedding;
  PassSeconds head;     ///< with the loss
  double message = 0;   ///< between stages: keeps each end busy half of it
  double latency = 0;   ///< what a message takes beside that
  double tp_share = 0;  ///< of a layer's seconds: tensor-parallel traffic
  double cp_share = 0;
  double layer_forward_share = 0;  ///< of what a layer computes
};

/// The busiest rank of a pipeline in a step.
struct PipelineSeconds {
  double busy = 0;      ///< computes, sends and receives
  double messages = 0;  ///< of `busy`: sends and receives
  double idle = 0;      ///< waits for others
};

[[nodiscard]] PassTimes pass_times(const Workload& workload, const Cluster& cluster,
                                   const Profile& profile);

/// Per stage and micro-batch: products by shape, attention, element-wise bytes and the floor of the
/// host; per pipeline: (m - 1) of the slowest stage and one of each, less what the schedule hides;
/// tensor- and context-parallel traffic that nothing hides; once a step the reduction of gradients
/// behind the last backward pass, the gathering of parameters, and the optimizer.
[[nodiscard]] StepSeconds step_seconds(const Workload& workload, const Cluster& cluster,
                                       const Profile& profile,
                                       const std::vector<StageShare>& shares);

/// The same where something else than a closed form has timed the pipeline. `times` as pass_times()
/// gives them.
[[nodiscard]] StepSeconds step_seconds(const Workload& workload, const Cluster& cluster,
                                       const Profile& profile,
                                       const std::vector<StageShare>& shares,
                                       const PassTimes& times, const PipelineSeconds& pipeline);

/// The size of buckets with which the traffic of replicas is hidden best, the layout's other
/// choices given: small ones start early and pay for their latency. The default where sizes change
/// nothing.
[[nodiscard]] double best_bucket_mib(const Workload& workload, const Cluster& cluster,
                                     const Profile& profile, const std::vector<StageShare>& shares);

}  // namespace trireme
