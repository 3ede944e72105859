// Events: what an instruction waits for on other streams, from overlapping operands (RAW, WAR,
// WAW), and from the memory that transient buffers share.
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "trireme/program/atoms.h"
#include "trireme/program/order.h"
#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

/// Latest positions that touched an atom, by stream.
struct AtomHistory {
  Clock written;
  Clock read;
};

class EventDerivation {
 public:
  explicit EventDerivation(Program& program) : program_(program), atoms_(program) {
    none_.fill(-1);
    history_.assign(static_cast<std::size_t>(atoms_.size()), {none_, none_});
    after_.fill(none_);
    last_call_.assign(program.buffers.size(), -1);
  }

  void run() {
    int position = 0;
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const int template_index = program_.calls[c].template_index;
      call_base_.push_back(position);
      auto& instructions = program_.at(template_index).instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i, ++position) {
        step(static_cast<int>(c), static_cast<int>(i), instructions[i], position);
      }
    }
  }

 private:
  void step(int call, int index, Instruction& instruction, int position) {
    const auto stream = static_cast<std::size_t>(instruction.stream);
    Clock needed = none_;
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const AtomSpan span = atoms_of(call, index, u);
      const bool writes = instruction.uses[u].writes();
      for (int atom = span.begin; atom < span.end; ++atom) {
        AtomHistory& history = history_[static_cast<std::size_t>(atom)];
        for (std::size_t s = 0; s < needed.size(); ++s) {
          needed[s] = std::max({needed[s], history.written[s], writes ? history.read[s] : -1});
        }
      }
    }
    if (begins_transient(call, instruction)) {
      // Its memory may have been another buffer's until the compute instruction before.
      constexpr auto kCompute = static_cast<std::size_t>(Stream::kCompute);
      needed[kCompute] = std::max(needed[kCompute], after_[kCompute][kCompute]);
    }
    Clock clock = after_[stream];
    know_waits(call, index, instruction, clock);
    for (std::size_t s = 0; s < needed.size(); ++s) {
      if (s == stream || needed[s] <= clock[s]) continue;
      add_wait(call, index, instruction, position_of(static_cast<Stream>(s), needed[s]));
      const Clock& known = done_.at(static_cast<std::size_t>(needed[s]));
      for (std::size_t t = 0; t < clock.size(); ++t) clock[t] = std::max(clock[t], known[t]);
    }
    clock[stream] = position;
    after_[stream] = clock;
    done_.push_back(clock);
    remember(call, index, instruction, position);
  }

  /// The instruction is the first of its call to use some transient buffer.
  bool begins_transient(int call, const Instruction& instruction) {
    bool begins = false;
    for (const Use& use : instruction.uses) {
      const auto id = static_cast<std::size_t>(use.range.buffer);
      if (program_.buffers[id].content != Content::kTransient) continue;
      begins = begins || last_call_[id] != call;
      last_call_[id] = call;
    }
    return begins;
  }

  /// What a pass has made the instruction wait for by hand.
  void know_waits(int call, int index, const Instruction& instruction, Clock& clock) const {
    for_each_wait(program_.calls[static_cast<std::size_t>(call)], instruction, index,
                  [&](const Wait& wait) {
                    const int base = call_base_[static_cast<std::size_t>(call - wait.calls_back)];
                    const int target = base + wait.instruction;
                    const Clock& known = done_.at(static_cast<std::size_t>(target));
                    for (std::size_t t = 0; t < clock.size(); ++t)
                      clock[t] = std::max(clock[t], known[t]);
                  });
  }

  [[nodiscard]] AtomSpan atoms_of(int call, int index, std::size_t use) const {
    return atoms_.of(program_.calls[static_cast<std::size_t>(call)], index, static_cast<int>(use));
  }

  /// A position, seen from the call in hand.
  [[nodiscard]] Wait position_of(Stream stream, int position) const {
    const auto call =
        std::upper_bound(call_base_.begin(), call_base_.end(), position) - call_base_.begin() - 1;
    return {.stream = stream,
            .calls_back = static_cast<int>(call_base_.size()) - 1 - static_cast<int>(call),
            .instruction = position - call_base_[static_cast<std::size_t>(call)]};
  }

  /// Within the call it belongs to the template: the union of what its calls need.
  void add_wait(int call, int index, Instruction& instruction, const Wait& wait) {
    if (wait.calls_back > 0) {
      program_.calls[static_cast<std::size_t>(call)].waits.push_back(
          {.instruction = index, .wait = wait});
      return;
    }
    auto& waits = instruction.waits;
    if (std::find(waits.begin(), waits.end(), wait) == waits.end()) waits.push_back(wait);
  }

  void remember(int call, int index, const Instruction& instruction, int position) {
    const auto stream = static_cast<std::size_t>(instruction.stream);
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const AtomSpan span = atoms_of(call, index, u);
      for (int atom = span.begin; atom < span.end; ++atom) {
        AtomHistory& history = history_[static_cast<std::size_t>(atom)];
        if (instruction.uses[u].reads()) history.read[stream] = position;
        if (instruction.uses[u].writes()) history.written[stream] = position;
      }
    }
  }

  Program& program_;
  AtomTable atoms_;
  Clock none_{};
  std::vector<AtomHistory> history_;
  std::array<Clock, kNumStreams> after_{};
  std::vector<Clock> done_;  ///< by position: what is known once it is done, itself included
  std::vector<int> call_base_;
  std::vector<int> last_call_;  ///< by buffer: the latest call that has used it
};

}  // namespace

void derive_events(Program& program) {
  EventDerivation(program).run();
}

}  // namespace trireme
