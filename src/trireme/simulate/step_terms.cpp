#include "trireme/simulate/step_terms.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include "trireme/program/groups.h"

namespace trireme {
namespace {

/// In the order in which one hides the other.
constexpr std::array<double StepSeconds::*, 6> kTerms = {
    &StepSeconds::compute, &StepSeconds::optimizer, &StepSeconds::tp,
    &StepSeconds::cp,      &StepSeconds::pp,        &StepSeconds::dp};

std::size_t term_of(const Instruction& instruction) {
  enum : std::size_t { kCompute, kOptimizer, kTp, kCp, kPp, kDp };
  if (!instruction.comm) {
    const bool is_update = instruction.op == Op::kOptStep || instruction.op == Op::kClip ||
                           instruction.op == Op::kNormSquare;
    return is_update ? kOptimizer : kCompute;
  }
  const auto axis = axis_of(instruction.comm->group);
  if (axis == Axis::kTp) return kTp;
  if (axis == Axis::kCp) return kCp;
  return axis == Axis::kPp ? kPp : kDp;
}

struct Change {
  double seconds = 0;
  int sign = 0;
  std::size_t term = 0;
  bool operator<(const Change& other) const {
    return std::tie(seconds, sign, term) < std::tie(other.seconds, other.sign, other.term);
  }
};

}  // namespace

StepSeconds step_terms(const Program& program, const std::vector<OpTime>& times, double last_end,
                       double makespan) {
  std::vector<Change> changes;
  std::size_t position = 0;
  for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
    const OpTime& time = times[position++];
    if (time.end <= time.start) return;
    const std::size_t term = term_of(instruction);
    changes.push_back({.seconds = time.start, .sign = 1, .term = term});
    changes.push_back({.seconds = time.end, .sign = -1, .term = term});
  });
  std::sort(changes.begin(), changes.end());
  StepSeconds seconds{.fixed = makespan - last_end};
  std::array<int, kTerms.size()> active{};
  double now = 0;
  const auto advance = [&](double to) {
    const auto first =
        std::find_if(active.begin(), active.end(), [](int count) { return count > 0; });
    double StepSeconds::*const term =
        first == active.end() ? &StepSeconds::bubble
                              : kTerms.at(static_cast<std::size_t>(first - active.begin()));
    seconds.*term += to - now;
    now = to;
  };
  for (const Change& change : changes) {
    advance(change.seconds);
    active.at(change.term) += change.sign;
  }
  advance(last_end);
  return seconds;
}

std::size_t busiest_rank(const CoreClock& clock) {
  return static_cast<std::size_t>(std::max_element(clock.busy.begin(), clock.busy.end()) -
                                  clock.busy.begin());
}

StepSeconds step_terms(const StepSimulation& simulation) {
  const CoreClock& clock = simulation.clock;
  double last_end = 0;
  for (const std::vector<OpTime>& times : clock.times) {
    for (const OpTime& time : times) last_end = std::max(last_end, time.end);
  }
  const std::size_t rank = busiest_rank(clock);
  return step_terms(simulation.programs[rank], clock.times[rank], last_end, clock.makespan);
}

}  // namespace trireme
