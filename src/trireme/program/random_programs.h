// Random build requests for tests: any model, layout and schedule that go together.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/program/pipeline.h"
#include "trireme/program/place.h"
#include "trireme/program/schedules/schedules.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/unit_clock.h"
#include "trireme/program/verify.h"

namespace trireme {

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
  }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  bool coin() { return between(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

/// Degrees of a layout alone; every axis from 1 on, at most 4 along pp, cp and tp.
inline Layout random_degrees(Draw& draw, int largest_world = 12) {
  Layout layout;
  layout.pp = draw.one_of<int>({1, 1, 2, 3, 4});
  layout.tp = draw.one_of<int>({1, 1, 2, 3, 4});
  const auto most = [&] { return std::max(1, largest_world / layout.world()); };
  layout.cp = std::min(draw.one_of<int>({1, 1, 2, 3, 4}), most());
  layout.cp_comm = draw.one_of<CpComm>({CpComm::kRing, CpComm::kAllGather});
  layout.dp = draw.between(1, std::min(8, most()));
  return layout;
}

/// Sets schedule, chunks and stages of a pipeline, and a number of micro-batches that go with them.
/// Returns that number; `layers` gets the model's.
inline int draw_pipeline(Draw& draw, Layout& layout, std::int64_t& layers) {
  if (layout.pp == 1) {
    layers = draw.between(1, 3);
    return draw.between(1, 8);
  }
  std::vector<const ScheduleKind*> kinds;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (!kind.is_bidirectional || layout.pp % 2 == 0) kinds.push_back(&kind);
  }
  const ScheduleKind& kind = *draw.one_of(kinds);
  layout.schedule = kind.name;
  layout.chunks = kind.chunks == 0 ? draw.between(0, 3) : draw.one_of<int>({0, kind.chunks});
  const int own_chunks = kind.chunks > 0 ? kind.chunks : 2;
  const int chunks = layout.chunks > 0 ? layout.chunks : own_chunks;
  ScheduleShape shape{.ranks = layout.pp, .chunks = chunks};
  do {
    shape.micro_batches = draw.between(1, 3 * layout.pp);
  } while (kind.refusal != nullptr && !kind.refusal(shape).empty());
  const int last = num_stages(kind, shape) - 1;
  for (int stage = 0; stage <= last; ++stage) {
    const bool is_end = stage == 0 || stage == last;
    layout.stages.push_back(draw.between(is_end ? 0 : 1, draw.one_of<int>({1, 1, 2})));
    layers += layout.stages.back();
  }
  if (layers == 0) layers = layout.stages.back() = 1;
  if (layers > last && draw.coin()) layout.stages.clear();
  return shape.micro_batches;
}

/// Odd and tiny sizes on purpose: parameters of 1 and 3 elements, shards of padding only; and
/// sequences longer than a chunk of the head.
inline ModelSpec random_spec(Draw& draw, std::int64_t layers, int tp) {
  ModelSpec spec;
  const bool is_llama = draw.coin();
  spec.family = is_llama ? Family::kLlama : Family::kGpt2;
  spec.layers = layers;
  spec.vocab = draw.between(tp, 40);
  spec.max_seq = draw.one_of<int>({4, 7, 12, 16, 300});
  if (is_llama) {
    spec.kv_heads = tp * draw.between(1, 2);
    spec.heads = spec.kv_heads * draw.between(1, 3);
    spec.head_dim = 2 * draw.between(1, 3);
    spec.hidden = draw.one_of<int>({1, 3, 5, 8, 12});
    spec.ffn = tp * draw.between(1, 20);
    spec.qk_norm = draw.coin();
    spec.qkv_bias = draw.coin();
    spec.tied = draw.coin();
  } else {
    spec.heads = tp * draw.between(1, 3);
    spec.hidden = spec.heads * draw.between(1, 4);
    spec.tied = true;
    spec.dropout = draw.coin() ? 0.1 : 0.0;
  }
  return resolved(spec);
}

/// 0, which stands for `number`, and its divisors.
inline std::vector<int> divisors_or_0(int number) {
  std::vector<int> values = {0};
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) values.push_back(divisor);
  }
  return values;
}

/// A ZeRO stage and what goes with it. `layout` has its schedule.
inline void draw_zero(Draw& draw, Layout& layout, int num_micro_batches, const ModelSpec& spec) {
  layout.zero = draw.between(0, 3);
  if (layout.zero > 0) layout.dp_shard = draw.one_of(divisors_or_0(layout.dp));
  if (layout.zero < 2) {
    layout.dp_sync = draw.one_of<DpSync>({DpSync::kNaive, DpSync::kBucketed, DpSync::kOverlapped});
  } else if (draw.coin() && Pipeline(spec, layout, num_micro_batches).has_whole_backwards()) {
    layout.reduce = GradientReduction::kMicroBatch;
  }
  if (layout.zero < 3) return;
  layout.prefetch = draw.between(0, 3);
  layout.reshard = draw.one_of<Reshard>({Reshard::kAuto, Reshard::kAlways, Reshard::kNever});
}

/// `layout` has its degrees.
inline BuildRequest random_request(Draw& draw, Layout layout) {
  std::int64_t layers = 0;
  const int num_micro_batches = draw_pipeline(draw, layout, layers);
  ModelSpec spec = random_spec(draw, layers, layout.tp);
  const int num_pieces = layout.cp > 1 ? 2 * layout.cp : 1;
  spec.max_seq = std::max<std::int64_t>(spec.max_seq, num_pieces);
  draw_zero(draw, layout, num_micro_batches, spec);
  layout.bucket_mib = draw.one_of<double>({1e-6, 1e-4, 1e-3, 25.0});
  layout.recompute =
      draw.one_of<Recompute>({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  layout.sp = layout.tp > 1 && spec.max_seq >= num_pieces * layout.tp && draw.coin();
  const int unit = num_pieces * (layout.sp ? layout.tp : 1);
  Batch batch{.seq = unit * draw.between(1, narrow<int>(spec.max_seq) / unit),
              .micro_batch = draw.between(1, 3)};
  batch.global_batch = batch.micro_batch * layout.dp * num_micro_batches;
  check_layout(spec, layout, batch);
  return {.spec = spec,
          .layout = layout,
          .batch = batch,
          .decay_norms = draw.coin(),
          .compute = draw.one_of<DType>({DType::kF32, DType::kBf16}),
          .reduce = draw.one_of<DType>({DType::kF32, DType::kBf16})};
}
inline BuildRequest random_request(Draw& draw) {
  const Layout degrees = random_degrees(draw);
  return random_request(draw, degrees);
}

/// How a failure names the request that a seed draws.
inline std::string what(unsigned seed, const BuildRequest& request) {
  return "seed " + std::to_string(seed) + ": " + layout_text(request.layout, request.batch);
}

inline Pipeline pipeline_of(const BuildRequest& request) {
  return Pipeline(request.spec, request.layout,
                  narrow<int>(request.batch.num_micro_batches(request.layout)));
}

/// When the schedule of a request is done with every op of a unit; a micro-batch is one without a
/// pipeline.
inline double due_makespan(const BuildRequest& request) {
  if (request.layout.pp == 1)
    return static_cast<double>(request.batch.num_micro_batches(request.layout));
  const Pipeline pipeline = pipeline_of(request);
  Schedule schedule = one_by_one(pipeline.schedule());
  const auto has_nothing_to_do = [&](const ScheduleStep& step) {
    const StageLayers& layers = pipeline.stage(step.op.stage);
    return step.op.phase == Phase::kBackwardWeight && layers.begin == layers.end;
  };
  for (Order& order : schedule.orders) std::erase_if(order, has_nothing_to_do);
  return run_virtual_clock(schedule, kUnits).makespan;
}

/// The schedule of a request runs some forwards and backwards together.
inline bool has_pairs(const BuildRequest& request) {
  const Schedule schedule = pipeline_of(request).schedule();
  return std::any_of(schedule.orders.begin(), schedule.orders.end(), [](const Order& order) {
    return std::any_of(order.begin(), order.end(),
                       [](const ScheduleStep& step) { return step.paired.has_value(); });
  });
}

/// "" if the programs of all ranks verify, are placed apart, and take on a unit clock as long as
/// their schedule; else what is wrong. Messages of pairs leave at the pair's end, so that those
/// schedules may take a little longer.
inline std::string fault_of_world(const BuildRequest& request) {
  const std::vector<Program> programs = all_ranks(request);
  if (const auto violation = verify(programs)) return fault(violation);
  for (const Program& program : programs) {
    const std::vector<const Program*> alone = {&program};
    if (const auto violation = verify_placement(alone, place(alone))) return fault(violation);
  }
  const CallSeconds unit_each = [](const Program&, const Call& call) {
    return call.micro_batch < 0 ? 0.0 : 1.0;
  };
  const CallSeconds seconds = request.layout.pp > 1 ? unit_seconds : unit_each;
  const double found = run_step_clock(programs, seconds).makespan, due = due_makespan(request);
  if (found == due || (has_pairs(request) && found > due && found <= 1.1 * due)) return "";
  return "makespan " + std::to_string(found) + " instead of " + std::to_string(due);
}

}  // namespace trireme
