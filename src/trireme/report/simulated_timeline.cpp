#include "trireme/report/simulated_timeline.h"

#include <utility>

#include "trireme/report/step_timeline.h"

namespace trireme {
namespace {

void add_events(const Program& program, const std::vector<OpTime>& times, Timeline& timeline) {
  std::size_t position = 0;
  for_each_instruction(program, [&](const Call& call, int, const Instruction& instruction, int) {
    const OpTime& time = times[position++];
    if (time.end <= time.start) return;
    TraceEvent event{.rank = program.request.rank,
                     .stream = static_cast<int>(instruction.stream),
                     .name = event_name(program, instruction),
                     .category = event_category(instruction),
                     .start_seconds = time.start,
                     .duration_seconds = time.end - time.start};
    if (call.micro_batch >= 0) event.micro_batch = call.micro_batch;
    timeline.events.push_back(std::move(event));
  });
}

void add_samples(int rank, const MemoryUse& memory, Timeline& timeline) {
  for (const MemorySample& of_rank : memory.samples) {
    TraceSample sample{.rank = rank, .name = "memory (bytes)", .start_seconds = of_rank.seconds};
    for (std::size_t kind = 0; kind < of_rank.bytes.size(); ++kind) {
      sample.values.emplace_back(memory_kind_name(static_cast<MemoryKind>(kind)),
                                 static_cast<double>(of_rank.bytes.at(kind)));
    }
    timeline.samples.push_back(std::move(sample));
  }
}

}  // namespace

Timeline simulated_timeline(std::string title, const StepSimulation& simulation,
                            const std::vector<MemoryUse>& memory) {
  Timeline timeline{.title = std::move(title), .stream_names = step_stream_names()};
  for (std::size_t i = 0; i < simulation.programs.size(); ++i) {
    const Program& program = simulation.programs[i];
    add_events(program, simulation.clock.times[i], timeline);
    add_samples(program.request.rank, memory.at(i), timeline);
  }
  return timeline;
}

}  // namespace trireme
