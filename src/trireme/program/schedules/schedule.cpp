#include "trireme/program/schedules/schedule.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/numbers.h"

namespace trireme {
namespace {

constexpr std::string_view kPhases = "FBIW";  // in the order of Phase
constexpr std::string_view kPairEnd = ")OVERLAP_F_B";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<int> number_of(std::string_view text) {
  constexpr int kMost = 1 << 20;
  int value = 0;
  if (!is_number(text, value) || value < 0 || value > kMost) return std::nullopt;
  return value;
}

std::optional<StageOp> op_of(std::string_view text) {
  const std::size_t at = text.find_first_of(kPhases);
  if (at == std::string_view::npos) return std::nullopt;
  const auto stage = number_of(text.substr(0, at)), micro_batch = number_of(text.substr(at + 1));
  if (!stage || !micro_batch) return std::nullopt;
  return StageOp{.phase = *parse_phase(text[at]), .stage = *stage, .micro_batch = *micro_batch};
}

std::optional<ScheduleStep> step_of(std::string_view text) {
  if (!text.starts_with('(')) {
    const auto op = op_of(text);
    return op ? std::optional(ScheduleStep{.op = *op}) : std::nullopt;
  }
  if (!text.ends_with(kPairEnd)) return std::nullopt;
  text.remove_prefix(1);
  text.remove_suffix(kPairEnd.size());
  const auto ops = split(text, ';');
  if (ops.size() != 2) return std::nullopt;
  const auto first = op_of(ops[0]), second = op_of(ops[1]);
  if (!first || !second) return std::nullopt;
  return ScheduleStep{.op = *first, .paired = *second};
}

/// What has been computed so far of one stage and micro-batch, and where.
struct Progress {
  std::array<int, kPhases.size()> times{};
  int rank = -1;
  [[nodiscard]] bool has(Phase phase) const {
    return times.at(static_cast<std::size_t>(phase)) > 0;
  }
};

class ScheduleCheck {
 public:
  explicit ScheduleCheck(const Schedule& schedule)
      : schedule_(schedule),
        progress_(static_cast<std::size_t>(schedule.num_stages) *
                  static_cast<std::size_t>(schedule.num_micro_batches)) {}

  std::optional<std::string> run() {
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      for (const ScheduleStep& step : schedule_.orders[static_cast<std::size_t>(rank)]) {
        if (step.paired &&
            (step.op.phase != Phase::kForward || !makes_input_gradient(step.paired->phase))) {
          return fmt::format("rank {}: {} is not a forward with a backward", rank, step_text(step));
        }
        std::optional<std::string> fault;
        for_each_op(step, [&](const StageOp& op) {
          if (!fault) fault = advance(rank, op);
        });
        if (fault) return fault;
      }
    }
    return find_missing();
  }

 private:
  Progress& progress(int stage, int micro_batch) {
    return progress_[static_cast<std::size_t>(stage) *
                         static_cast<std::size_t>(schedule_.num_micro_batches) +
                     static_cast<std::size_t>(micro_batch)];
  }

  std::optional<std::string> advance(int rank, const StageOp& op) {
    if (op.stage >= schedule_.num_stages || op.micro_batch >= schedule_.num_micro_batches) {
      return fmt::format("rank {}: {} with {} stages and {} micro-batches", rank, op_text(op),
                         schedule_.num_stages, schedule_.num_micro_batches);
    }
    Progress& done = progress(op.stage, op.micro_batch);
    const auto fault = [&](const char* what) {
      return fmt::format("rank {}: {} {}", rank, op_text(op), what);
    };
    if (done.rank >= 0 && done.rank != rank) return fault("is not where its forward is");
    done.rank = rank;
    if (op.phase != Phase::kForward && !done.has(Phase::kForward)) return fault("before its F");
    if (op.phase == Phase::kBackwardWeight && !done.has(Phase::kBackwardInput))
      return fault("before its I");
    const bool is_whole_and_split =
        (op.phase == Phase::kBackward && done.has(Phase::kBackwardInput)) ||
        (op.phase == Phase::kBackwardInput && done.has(Phase::kBackward));
    if (is_whole_and_split || ++done.times.at(static_cast<std::size_t>(op.phase)) > 1)
      return fault("a second time");
    return std::nullopt;
  }

  std::optional<std::string> find_missing() {
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      for (int micro_batch = 0; micro_batch < schedule_.num_micro_batches; ++micro_batch) {
        const Progress& done = progress(stage, micro_batch);
        const char* missing = nullptr;
        if (!done.has(Phase::kForward))
          missing = "F";
        else if (done.has(Phase::kBackwardInput) && !done.has(Phase::kBackwardWeight))
          missing = "W";
        else if (!done.has(Phase::kBackward) && !done.has(Phase::kBackwardInput))
          missing = "B";
        if (missing != nullptr) return fmt::format("no {}{}{}", stage, missing, micro_batch);
      }
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  std::vector<Progress> progress_;  ///< by (stage, micro-batch)
};

}  // namespace

char phase_letter(Phase phase) {
  return kPhases.at(static_cast<std::size_t>(phase));
}

std::optional<Phase> parse_phase(char letter) {
  const std::size_t at = kPhases.find(letter);
  return at == std::string_view::npos ? std::nullopt : std::optional(static_cast<Phase>(at));
}

std::string op_text(const StageOp& op) {
  return fmt::format("{}{}{}", op.stage, phase_letter(op.phase), op.micro_batch);
}

std::string step_text(const ScheduleStep& step) {
  if (!step.paired) return op_text(step.op);
  return fmt::format("({};{}{}", op_text(step.op), op_text(*step.paired), kPairEnd);
}

std::string schedule_csv(const Schedule& schedule) {
  std::string text;
  for (const Order& order : schedule.orders) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      text += (i == 0 ? "" : ",") + step_text(order[i]);
    }
    text += '\n';
  }
  return text;
}

Schedule parse_schedule_csv(std::string_view text, std::string_view name) {
  Schedule schedule{.name = std::string(name), .orders = {}};
  int line_number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    Order& order = schedule.orders.emplace_back();
    for (const std::string_view entry : split(line, ',')) {
      if (entry.empty()) continue;  // a bubble
      const auto step = step_of(entry);
      if (!step) {
        throw UsageError(
            fmt::format("[schedule] {}:{}: '{}' is no entry: must be <stage><F|B|I|W><micro-batch> "
                        "or (<forward>;<backward>)OVERLAP_F_B; correct it",
                        name, line_number, entry));
      }
      for_each_op(*step, [&](const StageOp& op) {
        schedule.num_stages = std::max(schedule.num_stages, op.stage + 1);
        schedule.num_micro_batches = std::max(schedule.num_micro_batches, op.micro_batch + 1);
      });
      order.push_back(*step);
    }
  }
  const std::int64_t num_ops =
      std::int64_t{schedule.num_stages} * std::int64_t{schedule.num_micro_batches};
  std::optional<std::string> fault;
  if (num_ops > kMaxScheduleOps) {
    fault = fmt::format("{} stages and {} micro-batches are too many", schedule.num_stages,
                        schedule.num_micro_batches);
  } else {
    fault = check_schedule(schedule);
  }
  if (schedule.num_stages == 0) fault = "it is empty";
  if (fault) {
    throw UsageError(
        fmt::format("[schedule] {}: {}: each stage computes each micro-batch once, F "
                    "before B or I before W; correct it",
                    name, *fault));
  }
  return schedule;
}

std::optional<std::string> check_schedule(const Schedule& schedule) {
  return ScheduleCheck(schedule).run();
}

}  // namespace trireme
