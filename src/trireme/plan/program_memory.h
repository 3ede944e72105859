// Memory of Trireme's own layouts: from the placed programs themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/plan/predict_table.h"
#include "trireme/program/place.h"
#include "trireme/program/program.h"

namespace trireme {

/// Bytes by kind of one rank of the pipeline, of its first tensor-, context- and data-parallel
/// rank, which holds the largest shards; without the workspace of a backend's kernels. Throws
/// UsageError for a layout that the trainer would refuse.
[[nodiscard]] KindBytes stage_kind_bytes(const BuildRequest& request, int stage);

/// Bytes of the arena of each rank of the pipeline, of its first tensor-, context- and
/// data-parallel rank, which holds the largest shards. `workspace_bytes` is what the backend's
/// kernels need beside the buffers of the program. Throws UsageError for a layout that the trainer
/// would refuse.
[[nodiscard]] std::vector<std::int64_t> stage_arena_bytes(const BuildRequest& request,
                                                          std::int64_t workspace_bytes);

/// A row as Trireme would run it on a cluster that it is not calibrated on: memory of its placed
/// programs, time as ScheduleClock has it. Throws UsageError for a model family, a precision or a
/// layout that Trireme does not train.
[[nodiscard]] Prediction predict_programs(const PricedCase& row, const Cluster& cluster,
                                          const Profile& profile);

/// Puts the bytes of a rank's arena into the prediction's state and activations.
void split_by_kind(const KindBytes& kinds, Prediction& prediction);

/// What a row asks Trireme to build; rank 0. Throws UsageError as above.
[[nodiscard]] BuildRequest build_request(const PricedCase& row);

}  // namespace trireme
