// What ranks did in recorded steps, as a timeline.
#pragma once

#include <string>
#include <vector>

#include "trireme/execute/rank_executor.h"
#include "trireme/program/program.h"
#include "trireme/report/trace.h"

namespace trireme {

/// Of the streams of instruction.h.
[[nodiscard]] std::vector<std::string> step_stream_names();

/// "FWD QKV L3", "ALL_REDUCE grads.0", "OPT_STEP params.1".
[[nodiscard]] std::string event_name(const Program& program, const Instruction& instruction);

/// "forward", "backward", "recompute", "communication", "optimizer" or "other".
[[nodiscard]] std::string event_category(const Instruction& instruction);

/// Streams as in instruction.h; time 0 is the start of the first instruction of all.
[[nodiscard]] Timeline step_timeline(std::string title, const std::vector<StreamRecord>& records);

}  // namespace trireme
