// What each rank has to tell at the end of a run. Private to the layer.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/execute/program_traffic.h"
#include "trireme/execute/rank_executor.h"
#include "trireme/train/run_plan.h"

namespace trireme {

struct RankReport {
  std::int64_t arena_bytes = 0;  ///< as allocated
  GroupBytes bytes_sent = {};    ///< of every group of the rank's programs
  std::vector<StreamRecord> traces = {};
};

/// Collective over all ranks (nullptr: one rank): the reports by rank on rank 0, nothing elsewhere.
/// Clocks of other machines are taken as they are.
[[nodiscard]] std::vector<RankReport> gather_reports(const RunPlan& plan, RankReport own,
                                                     Communicator* all);

}  // namespace trireme
