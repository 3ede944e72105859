// Happens-before of one step: stream order and waits.
#pragma once

#include <array>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// For each stream the position of its latest instruction that has completed for sure; -1: none.
using Clock = std::array<int, kNumStreams>;

/// Positions number the instructions of one step in program order, over all calls and streams.
class StepOrder {
 public:
  explicit StepOrder(const Program& program);

  [[nodiscard]] int size() const { return static_cast<int>(before_.size()); }
  [[nodiscard]] int position(int call, int instruction) const {
    return call_base_.at(static_cast<std::size_t>(call)) + instruction;
  }
  /// What has completed before the instruction at `position` starts.
  [[nodiscard]] const Clock& before(int position) const {
    return before_.at(static_cast<std::size_t>(position));
  }
  /// True if the instruction at `first`, on stream `stream`, completes before the one at `second`
  /// starts.
  [[nodiscard]] bool is_ordered(int first, Stream stream, int second) const {
    return first <= before(second)[static_cast<std::size_t>(stream)];
  }

 private:
  std::vector<int> call_base_;
  std::vector<Clock> before_;
};

}  // namespace trireme
