// A pipeline of four stages whose computations are sleeps, so that ranks do not compete for cores:
// the bubble that the programs, the executor and its messages leave, beside the schedule's formula.
//
//     build/release/trireme_bench_pipeline [--svg docs/images/pipeline_] [--rounds 3]
//     [--unit-ms 40] [--micro-batches 8] [--tolerance 0.01]
#include "trireme/program/pipeline.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/execute/backend.h"
#include "trireme/execute/rank_programs.h"
#include "trireme/execute/rank_resources.h"
#include "trireme/program/build.h"
#include "trireme/program/schedules/virtual_clock.h"
#include "trireme/program/step_clock.h"
#include "trireme/report/table.h"
#include "trireme/report/timeline_svg.h"

namespace trireme {
namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 2;  ///< of a round; the last one is measured
constexpr double kMilliseconds = 1e3;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Sleeping until a moment, not for a while: what happens before the call does not add to it.
void sleep_until(Clock::time_point moment) {
  const auto nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(moment.time_since_epoch()).count();
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  const std::timespec until = {.tv_sec = nanoseconds / kPerSecond,
                               .tv_nsec = nanoseconds % kPerSecond};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

/// The first part of a template of a stage.
int first_part(const Template& item) {
  const auto first =
      std::find_if(item.instructions.begin(), item.instructions.end(),
                   [](const Instruction& i) { return is_forward(i.op) || is_backward(i.op); });
  return static_cast<int>(first - item.instructions.begin());
}

/// Computes nothing: the first part of a call sleeps as long as the call would take.
class SleepingBackend final : public Backend {
 public:
  /// `op` is the time of F, I or W of one chunk.
  SleepingBackend(const Program& program, Seconds op)
      : program_(program), op_(std::chrono::duration_cast<Clock::duration>(op)) {}

  [[nodiscard]] std::int64_t workspace_bytes() const override { return 0; }
  void fill_constant(const Buffer&, std::byte*) override {}
  void run(const Call& call, int index, Operands, const StepContext&) override {
    const auto op = stage_op_of(program_, call);
    if (!op || first_part(program_.at(call.template_index)) != index) return;
    const Clock::time_point now = Clock::now();
    const bool follows_at_once = now - end_ < op_ / kSlackDivisor;
    end_ = (follows_at_once ? end_ : now) + (op->phase == Phase::kBackward ? 2 : 1) * op_;
    sleep_until(end_);
  }

 private:
  /// An op that starts less than this part of an op after the planned end of the one before is
  /// planned from there: a thread that wakes late delays one op, not all that follow. What it lost
  /// counts as idle.
  static constexpr int kSlackDivisor = 10;

  const Program& program_;
  Clock::duration op_;
  Clock::time_point end_ = {};  ///< of the op before, as planned
};

/// A schedule with all that is measured of it.
struct Case {
  Layout layout;
  Pipeline pipeline;
  std::vector<RankPrograms> ranks;
  std::vector<Timeline> rounds = {};

  [[nodiscard]] int chunks() const { return pipeline.num_stages() / kRanks; }
  [[nodiscard]] int num_micro_batches() const { return pipeline.schedule().num_micro_batches; }
};

Case make_case(const std::string& schedule, int chunks, int num_micro_batches) {
  const ModelSpec spec = resolved(
      {.layers = 2 * kRanks, .hidden = 8, .heads = 2, .ffn = 16, .vocab = 16, .max_seq = 4});
  const Layout layout = {.pp = kRanks, .schedule = schedule, .chunks = chunks};
  const Batch batch = {.seq = 4, .micro_batch = 1, .global_batch = num_micro_batches};
  check_layout(spec, layout, batch);
  std::vector<std::vector<Program>> programs;
  for (int rank = 0; rank < kRanks; ++rank) {
    programs.push_back(
        {build_train({.spec = spec, .layout = layout, .batch = batch, .rank = rank})});
  }
  return {.layout = layout,
          .pipeline = Pipeline(spec, layout, num_micro_batches),
          .ranks = make_ready(std::move(programs), 1)};
}

/// "input gradient, chunk 1"; the first chunk of a rank, often the only one, is not named.
std::string category_of(Phase phase, int chunk) {
  const auto name = [phase] {
    switch (phase) {
      case Phase::kForward:
        return "forward";
      case Phase::kBackward:
        return "backward";
      case Phase::kBackwardInput:
        return "input gradient";
      case Phase::kBackwardWeight:
        return "weight gradient";
    }
    return "";
  };
  return chunk == 0 ? name() : fmt::format("{}, chunk {}", name(), chunk);
}

/// In the order of timeline_svg's colours, so that the two chunks of a phase have related ones.
std::vector<std::string> category_colours() {
  constexpr auto kF = Phase::kForward, kB = Phase::kBackward, kI = Phase::kBackwardInput,
                 kW = Phase::kBackwardWeight;
  std::vector<std::string> names;
  for (const auto& [phase, chunk] :
       {std::pair(kF, 0), {kB, 0}, {kW, 0}, {kI, 0}, {kB, 1}, {kI, 1}, {kW, 1}, {kF, 1}}) {
    names.push_back(category_of(phase, chunk));
  }
  return names;
}

using RankTimes = std::array<std::vector<InstructionTime>, kRanks>;

/// Adds the sleeps of one phase and one chunk of each rank, named by their micro-batches.
void add_events(Timeline& timeline, const Case& item, const RankTimes& times, Phase phase,
                int chunk) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const Program& program = item.ranks[r].programs.front();
    const int stage = item.pipeline.stages_of(rank).at(static_cast<std::size_t>(chunk));
    for (const InstructionTime& time : times.at(r)) {
      const Call& call = program.calls[static_cast<std::size_t>(time.call)];
      const auto op = stage_op_of(program, call);
      if (!op || op->phase != phase || op->stage != stage) continue;
      if (first_part(program.at(call.template_index)) != time.instruction) continue;
      timeline.events.push_back({.rank = rank,
                                 .name = fmt::format("{}", call.micro_batch),
                                 .category = category_of(phase, chunk),
                                 .start_seconds = time.start_seconds,
                                 .duration_seconds = time.end_seconds - time.start_seconds,
                                 .micro_batch = call.micro_batch});
    }
  }
}

/// Time 0 is the start of the first sleep. Events are in the order of the legend.
Timeline timeline_of(const Case& item, const RankTimes& times) {
  Timeline timeline{.stream_names = {"compute"}};
  for (const Phase phase :
       {Phase::kForward, Phase::kBackward, Phase::kBackwardInput, Phase::kBackwardWeight}) {
    for (int chunk = 0; chunk < item.chunks(); ++chunk)
      add_events(timeline, item, times, phase, chunk);
  }
  double origin = HUGE_VAL;
  for (const TraceEvent& event : timeline.events) origin = std::min(origin, event.start_seconds);
  for (TraceEvent& event : timeline.events) event.start_seconds -= origin;
  return timeline;
}

Timeline run_round(const Case& item, Seconds op) {
  ThreadWorld world(kRanks);
  RankTimes times;
  run_ranks(world, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    RankResources resources(item.ranks[r], world, rank,
                            {.make_backend = [op](const Program& program) {
                              return std::make_unique<SleepingBackend>(program, op);
                            }});
    RankExecutor& executor = resources.executor();
    for (int step = 1; step <= kSteps; ++step) {
      executor.record_times(step == kSteps);
      executor.run(0, {.step = step});
    }
    times.at(r) = executor.times(Stream::kCompute);
  });
  return timeline_of(item, times);
}

/// Mean of the ranks, which all compute as much.
double bubble_ratio(const Timeline& timeline) {
  double busy = 0;
  for (const TraceEvent& event : timeline.events) busy += event.duration_seconds;
  return 1 - busy / kRanks / end_seconds(timeline);
}

/// Closed form for F = I = W with a barrier at the end of the step, sources in program/schedules:
/// the bubble is (p-1)(F+B) of GPipe and 1F1B, and of chunks when they are interleaved, (p-1)F of
/// ZB-H1, and of chunks of ZB-V, which without the barrier has none. Nothing for numbers of
/// micro-batches that it does not hold for.
std::optional<double> closed_form(const Case& item) {
  const std::string& schedule = item.layout.schedule;
  const int m = item.num_micro_batches();
  if (schedule == "interleaved" && m % kRanks != 0) return std::nullopt;
  if (schedule == "zb-h1" && m < kRanks) return std::nullopt;
  if (schedule == "zb-v" && m < 2 * kRanks - 1) return std::nullopt;
  const double bubble = (kRanks - 1) * (schedule.starts_with("zb-") ? 1 : 3);
  const double busy = 3.0 * item.chunks() * m;
  return bubble / (busy + bubble);
}

/// Of the rounds, that with the median bubble ratio.
const Timeline& median_round(const Case& item) {
  std::vector<const Timeline*> rounds;
  for (const Timeline& round : item.rounds) rounds.push_back(&round);
  const auto middle = rounds.begin() + std::ssize(rounds) / 2;
  std::nth_element(rounds.begin(), middle, rounds.end(), [](const auto* a, const auto* b) {
    return bubble_ratio(*a) < bubble_ratio(*b);
  });
  return **middle;
}

struct Result {
  double makespan_units = 0;
  double measured = 0;  ///< bubble ratios
  double clock = 0;
  std::optional<double> closed = {};
  [[nodiscard]] double difference() const { return measured - clock; }
  [[nodiscard]] bool is_within(double tolerance) const {
    return std::abs(difference()) <= tolerance &&
           std::abs(measured - closed.value_or(clock)) <= tolerance;
  }
};

/// A unit is F, I or W of a whole stage.
Result result_of(const Case& item, Seconds unit) {
  const Timeline& round = median_round(item);
  return {.makespan_units = end_seconds(round) / unit.count(),
          .measured = bubble_ratio(round),
          .clock = run_virtual_clock(item.pipeline.schedule(), {}).bubble_ratio(),
          .closed = closed_form(item)};
}

std::vector<std::string> row_of(const Case& item, const Result& result) {
  return {item.layout.schedule,
          fmt::format("{}", item.chunks()),
          fmt::format("{:.2f}", result.makespan_units),
          fmt::format("{:.4f}", result.measured),
          fmt::format("{:.4f}", result.clock),
          result.closed ? fmt::format("{:.4f}", *result.closed) : "-",
          fmt::format("{:+.4f}", result.difference())};
}

void write_picture(const Case& item, const std::string& prefix) {
  Timeline timeline = median_round(item);
  timeline.title =
      fmt::format("{}, bubble {:.1f} %", item.layout.schedule, 100 * bubble_ratio(timeline));
  const std::string path = fmt::format("{}{}.svg", prefix, item.layout.schedule);
  std::ofstream(path) << timeline_svg(std::span(&timeline, 1), category_colours());
  fmt::print("picture: {}\n", path);
}

struct Arguments {
  double unit_ms = 40;
  int micro_batches = 8;
  int rounds = 3;
  double tolerance = 0.01;
  std::string svg;
};

/// False if a bubble ratio is off by more than the tolerance.
bool measure(const Arguments& arguments) {
  std::vector<Case> cases;
  for (const auto& [schedule, chunks] :
       {std::pair("gpipe", 1), std::pair("1f1b", 1), std::pair("interleaved", 2),
        std::pair("zb-h1", 1), std::pair("zb-v", 2)}) {
    cases.push_back(make_case(schedule, chunks, arguments.micro_batches));
  }
  const Seconds unit(arguments.unit_ms / kMilliseconds);
  for (int round = 0; round < arguments.rounds; ++round) {
    for (Case& item : cases) item.rounds.push_back(run_round(item, unit / item.chunks()));
  }
  std::vector<std::vector<std::string>> rows;
  bool is_close = true;
  for (const Case& item : cases) {
    const Result result = result_of(item, unit);
    rows.push_back(row_of(item, result));
    is_close = is_close && result.is_within(arguments.tolerance);
  }
  fmt::print(
      "{} ranks, {} micro-batches; a unit is F, I or W of a stage and lasts {} ms; medians of {} "
      "rounds\n{}",
      kRanks, arguments.micro_batches, arguments.unit_ms, arguments.rounds,
      text_table({"schedule", "chunks", "units", "measured", "clock", "formula", "difference"},
                 rows));
  for (const Case& item : cases) {
    if (!arguments.svg.empty()) write_picture(item, arguments.svg);
  }
  if (!is_close) fmt::print("a bubble ratio is off by more than {}\n", arguments.tolerance);
  return is_close;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Bubbles of a pipeline of 4 ranks whose computations are sleeps, beside their formulas");
  Arguments arguments;
  app.add_option("--unit-ms", arguments.unit_ms,
                 "F, I or W of a whole stage; a chunk of two costs half, which should be at least "
                 "20 ms on a busy machine (40)")
      ->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", arguments.micro_batches, "of a step (8)")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", arguments.rounds, "interleaved repetitions (3)")
      ->check(CLI::PositiveNumber);
  app.add_option("--tolerance", arguments.tolerance,
                 "largest difference of the bubble ratios; else the exit code is 1 (0.01)");
  app.add_option("--svg", arguments.svg,
                 "prefix of a picture per schedule: docs/images/pipeline_ makes "
                 "docs/images/pipeline_1f1b.svg, ...");
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(arguments) ? 0 : 1;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(argc, argv);
}
