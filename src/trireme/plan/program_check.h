// What the planner asks of Trireme's own programs. Private to the layer.
#pragma once

#include "trireme/plan/planner.h"
#include "trireme/program/place.h"
#include "trireme/program/program.h"

namespace trireme {

/// Neither check_layout nor the pipeline refuses it.
[[nodiscard]] bool is_taken_by_trainer(const ModelSpec& spec, const Workload& workload);

[[nodiscard]] StageKinds stage_kinds(const KindBytes& bytes);

}  // namespace trireme
