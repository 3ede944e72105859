#include "trireme/report/step_timeline.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace trireme {
namespace {

TraceEvent event_of(const StreamRecord& record, const InstructionTime& time, double origin) {
  const Program& program = *record.program;
  const Call& call = program.calls.at(static_cast<std::size_t>(time.call));
  const Instruction& instruction =
      program.at(call.template_index).instructions.at(static_cast<std::size_t>(time.instruction));
  TraceEvent event{.rank = record.rank,
                   .stream = static_cast<int>(record.stream),
                   .name = event_name(program, instruction),
                   .category = event_category(instruction),
                   .start_seconds = time.start_seconds - origin,
                   .duration_seconds = time.end_seconds - time.start_seconds,
                   .micro_batch = {}};
  if (call.micro_batch >= 0) event.micro_batch = call.micro_batch;
  return event;
}

}  // namespace

std::vector<std::string> step_stream_names() {
  return {"compute", "communication", "tensor", "pipeline", "context"};
}

std::string event_name(const Program& program, const Instruction& instruction) {
  std::string name(op_name(instruction.op));
  if (instruction.part != Part::kNone) name += fmt::format(" {}", part_name(instruction.part));
  if (instruction.layer >= 0) name += fmt::format(" L{}", instruction.layer);
  if (instruction.part == Part::kNone && !instruction.uses.empty()) {
    name += fmt::format(" {}", program.buffer(instruction.uses.front().range.buffer).name);
  }
  return name;
}

std::string event_category(const Instruction& instruction) {
  if (instruction.comm) return "communication";
  if (instruction.op == Op::kRecompute) return "recompute";
  if (instruction.op == Op::kForward) return "forward";
  if (is_backward(instruction.op)) return "backward";
  const bool is_update = instruction.op == Op::kOptStep || instruction.op == Op::kClip ||
                         instruction.op == Op::kNormSquare;
  return is_update ? "optimizer" : "other";
}

Timeline step_timeline(std::string title, const std::vector<StreamRecord>& records) {
  double origin = std::numeric_limits<double>::infinity();
  for (const StreamRecord& record : records) {
    for (const InstructionTime& time : record.times) origin = std::min(origin, time.start_seconds);
  }
  Timeline timeline{.title = std::move(title), .stream_names = step_stream_names(), .events = {}};
  for (const StreamRecord& record : records) {
    for (const InstructionTime& time : record.times) {
      timeline.events.push_back(event_of(record, time, origin));
    }
  }
  return timeline;
}

}  // namespace trireme
