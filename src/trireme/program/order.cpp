#include "trireme/program/order.h"

#include <algorithm>
#include <cstddef>

namespace trireme {

StepOrder::StepOrder(const Program& program) {
  Clock none;
  none.fill(-1);
  std::array<Clock, kNumStreams>
      after;  // what is known once the latest instruction of a stream is done
  after.fill(none);
  int next = 0;
  for (const Call& call : program.calls) {
    call_base_.push_back(next);
    next += static_cast<int>(program.at(call.template_index).instructions.size());
  }
  before_.reserve(static_cast<std::size_t>(next));
  for_each_instruction(program, [&](const Call&, int c, const Instruction& instruction, int i) {
    const auto stream = static_cast<std::size_t>(instruction.stream);
    Clock clock = after[stream];
    const auto await = [&](const Wait& wait) {
      if (wait.calls_back < 0 || wait.calls_back > c) return;  // V5 names it
      const int call = c - wait.calls_back;
      const Template& item =
          program.at(program.calls[static_cast<std::size_t>(call)].template_index);
      if (wait.instruction < 0 || wait.instruction >= std::ssize(item.instructions)) return;
      const int target = position(call, wait.instruction);
      const auto other = static_cast<std::size_t>(wait.stream);
      if (target >= static_cast<int>(before_.size())) return;
      clock[other] = std::max(clock[other], target);
      const Clock& known = before_[static_cast<std::size_t>(target)];
      for (std::size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], known[s]);
    };
    for (const Wait& wait : instruction.waits) await(wait);
    for (const CallWait& of_call : program.calls[static_cast<std::size_t>(c)].waits) {
      if (of_call.instruction == i) await(of_call.wait);
    }
    before_.push_back(clock);
    clock[stream] = position(c, i);
    after[stream] = clock;
  });
}

}  // namespace trireme
