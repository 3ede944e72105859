#include "trireme/report/schedule_timeline.h"

#include <cstddef>
#include <string>

namespace trireme {
namespace {

std::string name_of(const StageOp& op, bool shows_stage) {
  const std::string text = op_text(op);
  return shows_stage ? text : text.substr(text.find_first_of("FBIW"));
}

/// True unless rank r holds stage r alone.
bool has_other_stages(const Schedule& schedule) {
  bool has_other = false;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    for (const ScheduleStep& step : schedule.orders[static_cast<std::size_t>(rank)]) {
      for_each_op(step, [&](const StageOp& op) { has_other = has_other || op.stage != rank; });
    }
  }
  return has_other;
}

}  // namespace

Timeline schedule_timeline(const Schedule& schedule, const ScheduleTimes& times) {
  const bool shows_stage = has_other_stages(schedule);
  Timeline timeline{.title = schedule.name, .stream_names = {"compute"}};
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i < schedule.orders[r].size(); ++i) {
      const ScheduleStep& step = schedule.orders[r][i];
      std::string name = name_of(step.op, shows_stage);
      if (step.paired) name += "&" + name_of(*step.paired, shows_stage);
      timeline.events.push_back(
          {.rank = rank,
           .name = name,
           .category = step.op.phase == Phase::kForward ? "forward" : "backward",
           .start_seconds = times.starts[r][i],
           .duration_seconds = times.ends[r][i] - times.starts[r][i],
           .micro_batch = step.op.micro_batch});
    }
  }
  return timeline;
}

}  // namespace trireme
