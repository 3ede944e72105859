// Bytes that one rank of a stage holds, tensor by tensor.
#pragma once

#include "trireme/cost/cluster.h"
#include "trireme/cost/estimate.h"
#include "trireme/cost/stages.h"

namespace trireme {

/// Elements of the parameters on one rank of the stage: its layers' matrices and its tables are
/// divided by tp. A table that is tied is held once, or by the first and by the last stage.
[[nodiscard]] double stage_parameters(const Workload& workload, const StageShare& share);

/// Bytes that one token of a layer keeps for the backward pass on one rank, without recomputation
/// of everything: Korthikanti et al. 2022 (arXiv:2205.05198, equations 1 to 4), by tensor.
[[nodiscard]] double kept_bytes_per_token(const Workload& workload, const Profile& profile);

/// ZeRO-2 or 3 reduces once a step, so each rank holds the gradients of several micro-batches
/// whole.
[[nodiscard]] bool holds_gradients(const Workload& workload, const Profile& profile);

/// Without the optional copies of gathered inputs.
[[nodiscard]] StageBytes stage_bytes(const Workload& workload, const Profile& profile,
                                     const StageShare& share, int rank);

/// Of the inputs that a tensor-parallel group has gathered and keeps for the backward pass.
[[nodiscard]] double gathered_bytes(const Workload& workload, const Profile& profile,
                                    const StageShare& share, int rank);

/// Outside of the framework's allocator: context and communicators.
[[nodiscard]] double overhead_bytes(const Workload& workload, const Profile& profile);

}  // namespace trireme
