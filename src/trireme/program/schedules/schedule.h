// Pipeline schedules: which rank computes what in which order. A schedule is data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// What a stage does with a micro-batch. A backward is either one piece or two: the gradient of
/// the input, which the stage before waits for, and the gradient of the weights, which nobody does.
enum class Phase : std::uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };

/// "2F0": phase F (forward), B, I or W of micro-batch 0 on stage 2.
struct StageOp {
  Phase phase{};
  int stage = 0;
  int micro_batch = 0;
  bool operator==(const StageOp&) const = default;
};

/// One entry of a rank's order: an op, and, in DualPipe, the backward of another micro-batch that
/// runs at the same time as this forward: "(0F3;3B5)OVERLAP_F_B".
struct ScheduleStep {
  StageOp op;
  std::optional<StageOp> paired = {};
  bool operator==(const ScheduleStep&) const = default;
};

/// Forwards of the largest schedule.
inline constexpr std::int64_t kMaxScheduleOps = std::int64_t{1} << 24;

using Order = std::vector<ScheduleStep>;

struct Schedule {
  std::string name;
  int num_stages = 0;
  int num_micro_batches = 0;
  std::vector<Order> orders;  ///< by rank of the pipeline
  bool operator==(const Schedule&) const = default;
  [[nodiscard]] int num_ranks() const { return static_cast<int>(orders.size()); }
};

/// Calls `visit(op)` for the one or two ops of a step.
template <typename Visit>
void for_each_op(const ScheduleStep& step, Visit visit) {
  visit(step.op);
  if (step.paired) visit(*step.paired);
}

/// B or I: what makes the gradient that the stage before waits for.
[[nodiscard]] constexpr bool makes_input_gradient(Phase phase) {
  return phase == Phase::kBackward || phase == Phase::kBackwardInput;
}
/// B or W.
[[nodiscard]] constexpr bool makes_weight_gradient(Phase phase) {
  return phase == Phase::kBackward || phase == Phase::kBackwardWeight;
}

/// F, B, I or W, in the grammar below and in the names of a pipeline's templates.
[[nodiscard]] char phase_letter(Phase phase);
[[nodiscard]] std::optional<Phase> parse_phase(char letter);

/// The grammar of torch.distributed.pipelining's CSV files: "2F0", "(0F3;3B5)OVERLAP_F_B".
[[nodiscard]] std::string op_text(const StageOp& op);
[[nodiscard]] std::string step_text(const ScheduleStep& step);

/// One line per rank, entries separated by commas.
[[nodiscard]] std::string schedule_csv(const Schedule& schedule);

/// Reads schedule_csv's form; empty entries (bubbles) are skipped. Stages and micro-batches are
/// counted from the entries. Throws UsageError naming line and entry for what is no entry, or
/// naming the op that check_schedule refuses.
[[nodiscard]] Schedule parse_schedule_csv(std::string_view text, std::string_view name);

/// What is wrong with a schedule as such: each stage computes each micro-batch exactly once, all on
/// one rank, F before B or I before W. Nothing if it is right.
[[nodiscard]] std::optional<std::string> check_schedule(const Schedule& schedule);

}  // namespace trireme
