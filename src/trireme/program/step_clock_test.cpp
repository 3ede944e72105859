// Built programs on a unit clock against the closed forms of their schedules.
#include "trireme/program/step_clock.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/sanitized.h"
#include "trireme/program/build.h"
#include "trireme/program/schedules/schedules.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/unit_clock.h"

namespace trireme {
namespace {

ScheduleShape shape_of(const ScheduleKind& kind, int ranks, int micro_batches, int chunks) {
  return {.ranks = ranks,
          .chunks = kind.chunks == 0 ? chunks : kind.chunks,
          .micro_batches = micro_batches};
}

const ScheduleKind& kind_of(std::string_view name) {
  return *find_schedule_kind(name);
}

/// Programs of all ranks of a pipeline alone, a layer a stage.
std::vector<Program> built(const ScheduleKind& kind, const ScheduleShape& shape) {
  return all_ranks(
      {.spec = resolved({.layers = num_stages(kind, shape),
                         .hidden = 4,
                         .heads = 2,
                         .ffn = 4,
                         .vocab = 5,
                         .max_seq = 4}),
       .layout = {.pp = shape.ranks, .schedule = std::string(kind.name), .chunks = shape.chunks},
       .batch = {.seq = 4, .global_batch = shape.micro_batches}});
}

/// Calls `check(kind, shape)` for shapes that the schedule allows.
template <typename Check>
void for_each_shape(Check check) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (const int ranks : {2, 3, 4}) {
      if (kind.is_bidirectional && ranks % 2 != 0) continue;
      for (const int micro_batches : {1, 3, ranks, 2 * ranks, 2 * ranks + 2, 3 * ranks}) {
        for (const int chunks : {1, 2, 3}) {
          if (kind.chunks != 0 && chunks != kind.chunks) continue;
          if (kIsSanitized && micro_batches != 2 * ranks) continue;
          const ScheduleShape shape = shape_of(kind, ranks, micro_batches, chunks);
          if (kind.refusal != nullptr && !kind.refusal(shape).empty()) continue;
          SCOPED_TRACE(std::string(kind.name) + " p " + std::to_string(ranks) + " v " +
                       std::to_string(shape.chunks) + " m " + std::to_string(micro_batches));
          check(kind, shape);
        }
      }
    }
  }
}

TEST(StepClock, OfProgramsIsThatOfTheirSchedule) {
  for_each_shape([](const ScheduleKind& kind, const ScheduleShape& shape) {
    const StepClock clock = run_step_clock(built(kind, shape), unit_seconds);
    const ScheduleTimes times =
        run_virtual_clock(one_by_one(make_schedule(kind.name, shape)), kUnits);
    EXPECT_EQ(clock.makespan, times.makespan);
    EXPECT_EQ(clock.busy, times.busy);
  });
}

/// Idle units of the step beside the busiest rank's work, and the region in which the study of
/// schedules calls them exact.
struct ClosedForm {
  std::string_view name;
  int chunks = 1;
  int (*bubble)(int ranks) = nullptr;
  bool (*is_exact)(int ranks, int micro_batches) = [](int, int) { return true; };
};

const ClosedForm kClosedForms[] = {
    {"gpipe", 1, [](int p) { return 3 * (p - 1); }},
    {"1f1b", 1, [](int p) { return 3 * (p - 1); }},
    {"1f1b-eager", 1, [](int p) { return 3 * (p - 1); }},
    {"interleaved", 2, [](int p) { return 3 * (p - 1); }, [](int p, int m) { return m % p == 0; }},
    {"interleaved", 3, [](int p) { return 3 * (p - 1); }, [](int p, int m) { return m % p == 0; }},
    {"breadth-first", 2, [](int p) { return 3 * (p - 1); }, [](int p, int m) { return m >= p; }},
    {"breadth-first", 3, [](int p) { return 3 * (p - 1); }, [](int p, int m) { return m >= p; }},
    {"zb-h1", 1, [](int p) { return p - 1; }, [](int p, int m) { return m >= p; }},
    {"zb-h2", 1, [](int p) { return p - 1; }, [](int p, int m) { return m >= 2 * p - 1; }},
    {"zb-v", 2, [](int p) { return p - 1; }, [](int p, int m) { return m >= 2 * p - 1; }},
    {"dualpipe", 2, [](int p) { return p / 2 - 1; }},  // its pairs one after the other
};

TEST(StepClock, OfProgramsHasTheBubbleOfTheClosedForms) {
  int num_checked = 0;
  for (const ClosedForm& form : kClosedForms) {
    for_each_shape([&](const ScheduleKind& kind, const ScheduleShape& shape) {
      const int m = shape.micro_batches;
      if (kind.name != form.name || shape.chunks != form.chunks) return;
      if (!form.is_exact(shape.ranks, m)) return;
      const StepClock clock = run_step_clock(built(kind, shape), unit_seconds);
      const int busy = 3 * m * num_stages(kind, shape) / shape.ranks;
      EXPECT_EQ(clock.busy, std::vector<double>(clock.busy.size(), busy));
      EXPECT_EQ(clock.makespan, busy + form.bubble(shape.ranks));
      ++num_checked;
    });
  }
  EXPECT_GE(num_checked, kIsSanitized ? 15 : 100);
}

TEST(StepClock, OfProgramsHasThePublishedMakespans) {
  struct Row {
    std::string_view name;
    ScheduleShape shape;
    double makespan = 0;
  };
  const Row rows[] = {{"gpipe", {2, 1, 2}, 9},          {"1f1b", {2, 1, 2}, 9},
                      {"gpipe", {4, 1, 4}, 21},         {"1f1b", {4, 1, 4}, 21},
                      {"gpipe", {4, 1, 8}, 33},         {"1f1b", {4, 1, 8}, 33},
                      {"1f1b", {4, 1, 2}, 15},          {"interleaved", {2, 2, 4}, 27},
                      {"interleaved", {4, 2, 8}, 57},   {"interleaved", {4, 4, 8}, 105},
                      {"breadth-first", {4, 2, 8}, 57}, {"zb-h1", {4, 1, 8}, 27},
                      {"zb-h2", {4, 1, 8}, 27},         {"zb-v", {4, 2, 8}, 51}};
  for (const Row& row : rows) {
    EXPECT_EQ(run_step_clock(built(kind_of(row.name), row.shape), unit_seconds).makespan,
              row.makespan)
        << row.name << " p " << row.shape.ranks << " m " << row.shape.micro_batches;
  }
}

TEST(StepClock, TensorAndDataParallelRanksTakeAsLongAsOne) {
  const std::vector<Program> programs = all_ranks(
      {.spec = resolved({.layers = 2, .hidden = 4, .heads = 2, .ffn = 4, .vocab = 5, .max_seq = 4}),
       .layout = {.pp = 2, .dp = 2, .tp = 2, .sp = true},
       .batch = {.seq = 4, .global_batch = 8}});
  const StepClock clock = run_step_clock(programs, unit_seconds);
  EXPECT_EQ(clock.makespan, 3 * 4 + 3);
  EXPECT_EQ(clock.busy, std::vector<double>(8, 12));
}

TEST(StepClock, NeedsAllRanks) {
  std::vector<Program> programs = built(kind_of("1f1b"), {.ranks = 2, .micro_batches = 2});
  programs.pop_back();
  EXPECT_THROW(static_cast<void>(run_step_clock(programs, unit_seconds)), InternalError);
}

TEST(StageOpOf, ReadsStageAndPhaseOfATemplatesName) {
  Program program;
  const auto op = [&](const char* name) {
    program.templates = {{.name = name, .instructions = {}}};
    return stage_op_of(program, {.micro_batch = 3});
  };
  EXPECT_EQ(op("S2.F"), (StageOp{.phase = Phase::kForward, .stage = 2, .micro_batch = 3}));
  EXPECT_EQ(op("S10.W.next"),
            (StageOp{.phase = Phase::kBackwardWeight, .stage = 10, .micro_batch = 3}));
  for (const char* const other : {"micro.first", "S2.send.1", "S2.take", "S2", "S.F", "SF", "Sx.F"})
    EXPECT_EQ(op(other), std::nullopt) << other;
}

// Frames
// --------------------------------------------------------------------------------------------------

/// Phases that share a pool of a stage ("FB"), and its frames; pools of messages are left out.
std::map<std::string, int> frames_of_stage(const Program& program, int stage) {
  const std::string prefix = "S" + std::to_string(stage) + ".";
  std::map<std::string, int> frames;
  for (const FramePool& pool : program.pools) {
    std::string phases;
    bool is_of_stage = true;
    for (std::size_t begin = 0; begin < pool.name.size();) {
      const std::size_t end = std::min(pool.name.find('+', begin), pool.name.size());
      const std::string name = pool.name.substr(begin, end - begin);
      begin = end + 1;
      is_of_stage = is_of_stage && name.starts_with(prefix) && name.size() == prefix.size() + 1;
      phases += name.back();
    }
    if (is_of_stage) frames[phases] = pool.num_frames;
  }
  return frames;
}

/// Most micro-batches of a stage between their forward and one of `ends`.
int most_in_flight(const Order& order, int stage, const std::set<Phase>& ends) {
  int now = 0, most = 0;
  for (const ScheduleStep& step : order) {
    for_each_op(step, [&](const StageOp& op) {
      if (op.stage == stage && op.phase == Phase::kForward) most = std::max(most, ++now);
      if (op.stage == stage && ends.contains(op.phase)) --now;
    });
  }
  return most;
}

TEST(FramesInFlight, AreAsManyAsMicroBatchesOfTheStageAreInFlight) {
  int num_checked = 0;
  for_each_shape([&](const ScheduleKind& kind, const ScheduleShape& shape) {
    const std::vector<Program> programs = built(kind, shape);
    const Schedule schedule = make_schedule(kind.name, shape);
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      for (int stage = 0; stage < schedule.num_stages; ++stage) {
        for (const auto& [phases, num_frames] : frames_of_stage(programs[rank], stage)) {
          if (!phases.starts_with('F')) continue;
          const bool is_until_weight = phases.find('W') != std::string::npos;
          const Phase half = is_until_weight ? Phase::kBackwardWeight : Phase::kBackwardInput;
          EXPECT_EQ(num_frames,
                    most_in_flight(schedule.orders[rank], stage, {Phase::kBackward, half}))
              << "stage " << stage << " pool " << phases;
          ++num_checked;
        }
      }
    }
  });
  EXPECT_GE(num_checked, kIsSanitized ? 150 : 1000);
}

/// In-flight micro-batches of stage s of p, from forward to input gradient and to weight gradient.
struct FlightForm {
  std::string_view name;
  int (*until_input)(int p, int s, int m) = nullptr;
  int (*until_weight)(int p, int s, int m) = nullptr;
};

TEST(FramesInFlight, OfSchedulesWithOneChunkAreThoseOfTheClosedForms) {
  const FlightForm forms[] = {
      {"naive", [](int, int, int) { return 1; }},
      {"gpipe", [](int, int, int m) { return m; }},
      {"gpipe-lifo", [](int, int, int m) { return m; }},
      {"1f1b", [](int p, int s, int m) { return std::min(p - s, m); }},
      {"1f1b-eager", [](int p, int s, int m) { return std::min(2 * (p - 1 - s) + 1, m); }},
      {"zb-h1", [](int p, int s, int m) { return std::min(p - s, m); },
       [](int p, int, int m) { return std::min(p, m); }},
      {"zb-h2", [](int p, int s, int m) { return std::min(2 * (p - s) - 1, m); },
       [](int p, int, int m) { return std::min(2 * p - 1, m); }},
  };
  for (const FlightForm& form : forms) {
    const bool is_split = form.until_weight != nullptr;
    for_each_shape([&](const ScheduleKind& kind, const ScheduleShape& shape) {
      if (kind.name != form.name) return;
      const std::vector<Program> programs = built(kind, shape);
      for (int stage = 0; stage < shape.ranks; ++stage) {
        auto frames = frames_of_stage(programs[static_cast<std::size_t>(stage)], stage);
        const int p = shape.ranks, m = shape.micro_batches;
        EXPECT_EQ(frames[is_split ? "FI" : "FB"], form.until_input(p, stage, m));
        if (is_split) {
          EXPECT_EQ(frames["FW"], form.until_weight(p, stage, m));
        }
      }
    });
  }
}

/// Most forwards of all stages of a rank whose gradients have not passed on, by its calls.
int most_of_rank(const Program& program) {
  int now = 0, most = 0;
  for (const Call& call : program.calls) {
    const auto op = stage_op_of(program, call);
    if (!op) continue;
    if (op->phase == Phase::kForward) most = std::max(most, ++now);
    if (makes_input_gradient(op->phase)) --now;
  }
  return most;
}

/// Chunks in flight on rank r of p with v chunks and m micro-batches.
struct ChunkForm {
  std::string_view name;
  int (*chunks)(int p, int v, int m, int r) = nullptr;
  bool (*is_exact)(int p, int m) = [](int, int) { return true; };
};

TEST(ChunksInFlight, AreThoseOfTheClosedForms) {
  const ChunkForm forms[] = {
      {"interleaved",
       [](int p, int v, int m, int r) {
         return std::min(2 * (p - 1 - r) + (v - 1) * p + 1, m * v);
       },
       [](int p, int m) { return m % p == 0; }},
      {"breadth-first", [](int, int v, int m, int) { return m * v; }},
      {"zb-v", [](int p, int, int, int) { return 2 * p; },
       [](int p, int m) { return m >= 2 * p - 1; }},
      {"dualpipe", [](int p, int, int, int) { return p + 1; }},
      {"dualpipe-v", [](int p, int, int, int) { return 2 * p + 1; }},
  };
  for (const ChunkForm& form : forms) {
    for_each_shape([&](const ScheduleKind& kind, const ScheduleShape& shape) {
      if (kind.name != form.name || !form.is_exact(shape.ranks, shape.micro_batches)) return;
      const std::vector<Program> programs = built(kind, shape);
      for (int rank = 0; rank < shape.ranks; ++rank) {
        EXPECT_EQ(most_of_rank(programs[static_cast<std::size_t>(rank)]),
                  form.chunks(shape.ranks, shape.chunks, shape.micro_batches, rank))
            << "rank " << rank;
      }
    });
  }
}

}  // namespace
}  // namespace trireme
