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
      op.meets.push_back(meeting_of(program, instruction, counts));
    ops.push_back(std::move(op));
    places.push_back({.call = c, .instruction = i});
  });
}

int StepSystem::meeting_of(const Program& program, const Instruction& instruction,
                           std::map<Key, int>& counts) {
  const Comm& comm = *instruction.comm;
  const std::vector<int> ranks = group_ranks(program.request, comm.group);
  Key key{comm.group, ranks.front(), 0, 0};
  if (comm.peer >= 0) {
    const int self = program.request.rank;
    const int peer = ranks.at(static_cast<std::size_t>(comm.peer));
    const bool is_send = instruction.op == Op::kSend;
    key = {comm.group, is_send ? self : peer, 1 + (is_send ? peer : self), 0};
  }
  std::get<3>(key) = counts[key]++;
  return numbers_.try_emplace(key, narrow<int>(numbers_.size())).first->second;
}

}  // namespace trireme
