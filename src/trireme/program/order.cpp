#include "trireme/program/order.h"

#include <algorithm>
#include <cstddef>

namespace trireme {

StepOrder::StepOrder(const Program& program) : call_base_(call_bases(program)) {
  Clock none;
  none.fill(-1);
  std::array<Clock, kNumStreams>
      after;  // what is known once the latest instruction of a stream is done
  after.fill(none);
  before_.reserve(static_cast<std::size_t>(call_base_.back()));
  for_each_instruction(program, [&](const Call& own, int c, const Instruction& instruction, int i) {
    const auto stream = static_cast<std::size_t>(instruction.stream);
    Clock clock = after[stream];
    for_each_wait(own, instruction, i, [&](const Wait& wait) {
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
    });
    before_.push_back(clock);
    clock[stream] = position(c, i);
    after[stream] = clock;
  });
}

}  // namespace trireme
