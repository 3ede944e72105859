#include "trireme/program/step_system.h"

#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/groups.h"

namespace trireme {
namespace {

/// One stream may hold up another only through waits; on one queue each holds up all behind it.
int queue_of(Stream stream, DeadlockMode mode) {
  if (mode == DeadlockMode::kBlocking || stream == Stream::kCompute) return 0;
  return mode == DeadlockMode::kDeviceSerial ? 1 : static_cast<int>(stream);
}

}  // namespace

StepSystem::StepSystem(const std::vector<Program>& programs, DeadlockMode mode) : mode_(mode) {
  for (const Program& program : programs) add(program);
}

void StepSystem::add(const Program& program) {
  const std::vector<int> bases = call_bases(program);
  auto& ops = system_.ranks.emplace_back();
  auto& places = places_.emplace_back();
  std::map<Key, int> counts;
  for_each_instruction(program, [&](const Call& call, int c, const Instruction& instruction,
                                    int i) {
    RendezvousOp op{.queue = queue_of(instruction.stream, mode_)};
    for_each_wait(call, instruction, i, [&](const Wait& wait) {
      op.after.push_back(bases[static_cast<std::size_t>(c - wait.calls_back)] + wait.instruction);
    });
    if (instruction.comm && group_ranks(program.request, instruction.comm->group).size() > 1)
      op.meets = meetings_of(program, instruction, counts);
    ops.push_back(std::move(op));
    places.push_back({.call = c, .instruction = i});
  });
}

std::vector<int> StepSystem::meetings_of(const Program& program, const Instruction& instruction,
                                         std::map<Key, int>& counts) {
  const Comm& comm = *instruction.comm;
  const std::vector<int> ranks = group_ranks(program.request, comm.group);
  const int self = program.request.rank;
  const auto rank = [&](int number) { return ranks.at(static_cast<std::size_t>(number)); };
  std::vector<Key> keys;
  if (comm.peer < 0) keys.emplace_back(comm.group, ranks.front(), 0, 0);
  if (sends(instruction.op)) keys.emplace_back(comm.group, self, 1 + rank(comm.peer), 0);
  if (receives(instruction.op))
    keys.emplace_back(comm.group, rank(source_of(instruction)), 1 + self, 0);
  std::vector<int> meetings;
  for (Key& key : keys) {
    std::get<3>(key) = counts[key]++;
    meetings.push_back(numbers_.try_emplace(key, narrow<int>(numbers_.size())).first->second);
  }
  return meetings;
}

}  // namespace trireme
