// What all ranks settle before any of them takes memory. Private to the layer.
#pragma once

#include <optional>
#include <string>

#include "trireme/checkpoint/store.h"
#include "trireme/comm/communicator.h"
#include "trireme/train/run_plan.h"

namespace trireme {

class TrainObserver;

/// The checkpoint to go on from, if any. Throws ResourceError if the store's are all damaged,
/// UsageError if the config starts elsewhere than where the folder's line of steps ends.
[[nodiscard]] std::optional<Checkpoint> find_resume(const TrainConfig& config,
                                                    const CheckpointStore& store,
                                                    TrainObserver& observer);

/// Collective: rank 0's checkpoint on all ranks; `found` matters there alone. Each process reads
/// the folder's state.json itself.
[[nodiscard]] std::optional<Checkpoint> share_checkpoint(std::optional<Checkpoint> found,
                                                         Communicator& all);

/// Collective: UsageError on all ranks unless each has built the same programs of all ranks, for
/// the same data.
void check_same_plan(const RunPlan& plan, const std::string& data_identity, Communicator& all);

}  // namespace trireme
