#include "trireme/program/pipeline.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"
#include "trireme/program/schedules/virtual_clock.h"

namespace trireme {
namespace {

/// Stages of each rank, ascending.
std::vector<std::vector<int>> stages_by_rank(const Schedule& schedule) {
  std::vector<std::vector<int>> all;
  for (const Order& order : schedule.orders) {
    std::vector<int>& stages = all.emplace_back();
    for (const ScheduleStep& step : order) {
      for_each_op(step, [&](const StageOp& op) { stages.push_back(op.stage); });
    }
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  }
  return all;
}

bool has_copies(const std::vector<std::vector<int>>& stages_of, int num_stages) {
  std::size_t num_held = 0;
  for (const auto& stages : stages_of) num_held += stages.size();
  return num_held > static_cast<std::size_t>(num_stages);
}

// One rank.

void check_one_rank(const Layout& layout, int num_micro_batches) {
  if (layout.chunks != 0 && layout.chunks != 1) {
    throw UsageError(
        fmt::format("[layout] chunks = {} with pp = 1: one rank has one stage; use chunks = 1, or "
                    "pp = 2 or more",
                    layout.chunks));
  }
  if (num_micro_batches > kMaxScheduleOps) {
    throw UsageError(
        fmt::format("[batch] {} micro-batches: must be at most {}; use a smaller "
                    "global_batch or a larger micro_batch",
                    num_micro_batches, kMaxScheduleOps));
  }
}

Schedule one_rank_schedule(int num_micro_batches) {
  OrderWriter order;
  for (int m = 0; m < num_micro_batches; ++m) {
    order.forward(0, m);
    order.backward(0, m);
  }
  return {.name = "none",
          .num_stages = 1,
          .num_micro_batches = num_micro_batches,
          .orders = {order.take()}};
}

// Schedules from files.

/// Each file is read once, so that all ranks of a process run one schedule.
const std::string& file_text(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::string> texts;
  const std::lock_guard lock(mutex);
  if (const auto known = texts.find(path); known != texts.end()) return known->second;
  std::error_code error;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, error)) file.open(path, std::ios::binary);
  if (!file.is_open()) {
    throw UsageError(fmt::format(
        "[layout] schedule = \"{}\" cannot be read: must be a schedule's name or a file; correct "
        "the path",
        path));
  }
  return texts[path] = {std::istreambuf_iterator<char>(file), {}};
}

/// Each stage must be on one rank, or each on two ranks that are mirrors.
void check_placement(const Schedule& schedule) {
  const auto stages_of = stages_by_rank(schedule);
  const int num_ranks = schedule.num_ranks();
  const auto refuse = [&](std::string_view what) {
    throw UsageError(
        fmt::format("[layout] schedule = \"{}\": {}; correct the file", schedule.name, what));
  };
  const auto idle = std::find_if(stages_of.begin(), stages_of.end(),
                                 [](const auto& stages) { return stages.empty(); });
  if (idle != stages_of.end())
    refuse(fmt::format("rank {} computes nothing, must have a stage", idle - stages_of.begin()));
  if (!has_copies(stages_of, schedule.num_stages)) return;
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<int> mirrors = {std::min(rank, num_ranks - 1 - rank),
                                std::max(rank, num_ranks - 1 - rank)};
    if (num_ranks % 2 == 0 && stages_of[static_cast<std::size_t>(rank)] == mirrors) continue;
    refuse(fmt::format(
        "some stage is on two ranks, so rank {} must have the stages {} and {}, one each way, of "
        "an even number of ranks",
        rank, mirrors.front(), mirrors.back()));
  }
}

Schedule schedule_of_file(const Layout& layout) {
  Schedule schedule = parse_schedule_csv(file_text(layout.schedule), layout.schedule);
  if (schedule.num_ranks() != layout.pp) {
    throw UsageError(fmt::format(
        "[layout] schedule = \"{}\" has {} ranks with pp = {}: must be equal; use pp = {}",
        layout.schedule, schedule.num_ranks(), layout.pp, schedule.num_ranks()));
  }
  if (layout.chunks != 0 && layout.pp * std::int64_t{layout.chunks} != schedule.num_stages) {
    throw UsageError(fmt::format(
        "[layout] schedule = \"{}\" has {} stages with pp = {} and chunks = {}: must be "
        "pp * chunks; use chunks = 0, the file's own number",
        layout.schedule, schedule.num_stages, layout.pp, layout.chunks));
  }
  check_placement(schedule);
  static_cast<void>(run_virtual_clock(schedule, {}));  // refuses ranks that wait for each other
  return schedule;
}

// Any number of ranks.

Schedule named_schedule(const Layout& layout, int num_micro_batches) {
  constexpr int kChunksWhereAny = 2;
  const ScheduleKind* const kind = find_schedule_kind(layout.schedule);
  int chunks = layout.chunks;
  if (chunks == 0 && kind != nullptr) chunks = kind->chunks == 0 ? kChunksWhereAny : kind->chunks;
  return make_schedule(layout.schedule,
                       {.ranks = layout.pp, .chunks = chunks, .micro_batches = num_micro_batches});
}

Schedule training_schedule(const Layout& layout, int num_micro_batches) {
  TRI_CHECK(num_micro_batches >= 1);
  if (layout.pp == 1) {
    check_one_rank(layout, num_micro_batches);
    return one_rank_schedule(num_micro_batches);
  }
  if (!is_schedule_file(layout.schedule)) return named_schedule(layout, num_micro_batches);
  Schedule schedule = schedule_of_file(layout);
  if (schedule.num_micro_batches != num_micro_batches) {
    throw UsageError(fmt::format(
        "[layout] schedule = \"{}\" has {} micro-batches with {} of a step: must be equal; use "
        "global_batch = {} * micro_batch * dp",
        layout.schedule, schedule.num_micro_batches, num_micro_batches,
        schedule.num_micro_batches));
  }
  return schedule;
}

/// Some schedule of the layout, for what does not depend on the number of micro-batches.
Schedule placing_schedule(const Layout& layout) {
  if (layout.pp == 1) return training_schedule(layout, 1);
  if (is_schedule_file(layout.schedule)) return schedule_of_file(layout);
  return named_schedule(layout, 2 * layout.pp);  // a number that all of them allow
}

/// Groups of micro-batches one after the other, within a group stage after stage: an order that
/// agrees with all dependencies, so that no rank waits in a circle wherever the stages are.
Schedule forward_schedule(int num_micro_batches, const std::vector<int>& rank_of_stage,
                          int num_ranks) {
  const auto num_stages = static_cast<int>(rank_of_stage.size());
  std::vector<OrderWriter> orders(static_cast<std::size_t>(num_ranks));
  for (int first = 0; first < num_micro_batches; first += num_ranks) {
    const int end = std::min(first + num_ranks, num_micro_batches);
    for (int stage = 0; stage < num_stages; ++stage) {
      const int rank = rank_of_stage[static_cast<std::size_t>(stage)];
      for (int m = first; m < end; ++m) orders[static_cast<std::size_t>(rank)].forward(stage, m);
    }
  }
  Schedule schedule = {.name = "forward",
                       .num_stages = num_stages,
                       .num_micro_batches = num_micro_batches,
                       .orders = {}};
  for (OrderWriter& order : orders) schedule.orders.push_back(order.take());
  return schedule;
}

// Layers.

std::string example_of(const ModelSpec& spec, int num_stages) {
  if (num_stages > spec.layers) return "correct it";
  return fmt::format("use for example {}", fmt::join(balanced_stages(spec, num_stages), ", "));
}

void check_list(const ModelSpec& spec, const Layout& layout, int num_stages) {
  const auto refuse = [&](std::string_view rule) {
    throw UsageError(
        fmt::format("[layout] stages = {} with pp = {} and [model] layers = {}: {}; {}",
                    fmt::join(layout.stages, ", "), layout.pp, spec.layers, rule,
                    example_of(spec, num_stages)));
  };
  if (std::ssize(layout.stages) != num_stages)
    refuse(fmt::format("must have {} numbers, one for each stage", num_stages));
  std::int64_t sum = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    const std::int64_t num_layers = layout.stages[static_cast<std::size_t>(stage)];
    const bool is_end = stage == 0 || stage == num_stages - 1;
    if (num_layers < (is_end ? 0 : 1))
      refuse("each stage must have a layer, except the first and the last, which may have 0");
    sum += std::min(num_layers, spec.layers + 1);
  }
  if (sum != spec.layers) refuse("must sum to layers");
}

std::vector<std::int64_t> layers_of_stages(const ModelSpec& spec, const Layout& layout,
                                           int num_stages) {
  if (!layout.stages.empty()) {
    check_list(spec, layout, num_stages);
    return layout.stages;
  }
  if (num_stages > spec.layers) {
    throw UsageError(fmt::format(
        "[layout] pp = {} with schedule = \"{}\" makes {} stages of [model] layers = {}: each must "
        "have a layer (but the ends, with stages = [0, ...]); use pp = {}",
        layout.pp, layout.schedule, num_stages, spec.layers,
        std::max<std::int64_t>(1, spec.layers * layout.pp / num_stages)));
  }
  return balanced_stages(spec, num_stages);
}

}  // namespace

bool Pipeline::has_whole_backwards() const {
  bool has_halves = false;
  for (const Order& order : schedule_.orders) {
    for (const ScheduleStep& step : order) {
      for_each_op(step, [&](const StageOp& op) {
        has_halves = has_halves || op.phase == Phase::kBackwardInput;
      });
    }
  }
  return !has_halves && !is_bidirectional_;
}

bool is_schedule_file(std::string_view schedule) {
  return schedule.find('/') != std::string_view::npos || schedule.ends_with(".csv");
}

Pipeline::Pipeline(const ModelSpec& spec, const Layout& layout, int num_micro_batches)
    : Pipeline(spec, layout, training_schedule(layout, num_micro_batches)) {
  const bool is_free = layout.reduce == GradientReduction::kStep || layout.num_shards() == 1;
  if (is_free || has_whole_backwards()) return;
  throw UsageError(fmt::format(
      "[layout] reduce = micro_batch with schedule = \"{}\": must be step where the backward pass "
      "of a micro-batch is in halves or on two ranks, whose gradients would all have to wait; use "
      "reduce = step, or for example schedule = 1f1b",
      layout.schedule));
}

Pipeline::Pipeline(const ModelSpec& spec, const Layout& layout, Schedule schedule)
    : stages_of_(stages_by_rank(schedule)),
      schedule_(std::move(schedule)),
      messages_(schedule_),
      is_bidirectional_(has_copies(stages_of_, schedule_.num_stages)) {
  int begin = 0;
  for (const std::int64_t num_layers : layers_of_stages(spec, layout, schedule_.num_stages)) {
    stages_.push_back({.begin = begin, .end = begin + narrow<int>(num_layers)});
    begin = stages_.back().end;
  }
  TRI_CHECK(begin == spec.layers);
}

Pipeline Pipeline::forward_only(const ModelSpec& spec, const Layout& layout,
                                int num_micro_batches) {
  TRI_CHECK(num_micro_batches >= 1);
  Pipeline pipeline(spec, layout, placing_schedule(layout));
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < pipeline.num_stages(); ++stage) {
    rank_of_stage.push_back(pipeline.is_bidirectional() ? stage : pipeline.rank_of(stage, 0));
  }
  pipeline.schedule_ = forward_schedule(num_micro_batches, rank_of_stage, layout.pp);
  pipeline.messages_ = MessageTable(pipeline.schedule_);
  return pipeline;
}

int Pipeline::stage_of_layer(int layer) const {
  const auto stage = std::find_if(stages_.begin(), stages_.end(), [&](const StageLayers& layers) {
    return layers.begin <= layer && layer < layers.end;
  });
  TRI_CHECK(stage != stages_.end());
  return static_cast<int>(stage - stages_.begin());
}

bool Pipeline::holds(int pp_rank, int stage) const {
  const std::vector<int>& stages = stages_of(pp_rank);
  return std::binary_search(stages.begin(), stages.end(), stage);
}

std::vector<std::int64_t> balanced_stages(const ModelSpec& spec, int num_stages) {
  TRI_CHECK(1 <= num_stages && num_stages <= spec.layers);
  if (num_stages == 1) return {spec.layers};
  const std::int64_t layer_cost =
      spec.hidden * (spec.qkv_width() + spec.q_width() + spec.up_width() + spec.ffn);
  const std::int64_t head_cost = spec.hidden * spec.vocab;
  const std::int64_t num_others = num_stages - 1;
  std::int64_t num_last = 1, least_cost = 0;
  for (std::int64_t last = 1; last <= spec.layers - num_others; ++last) {
    const std::int64_t cost = std::max(div_ceil(spec.layers - last, num_others) * layer_cost,
                                       last * layer_cost + head_cost);
    if (last > 1 && cost > least_cost) continue;  // of equals the later: the others have less
    num_last = last;
    least_cost = cost;
  }
  std::vector<std::int64_t> num_layers;
  const std::int64_t rest = spec.layers - num_last;
  for (std::int64_t stage = 0; stage < num_others; ++stage) {
    const bool has_one_more = stage >= num_others - rest % num_others;
    num_layers.push_back(rest / num_others + (has_one_more ? 1 : 0));
  }
  num_layers.push_back(num_last);
  return num_layers;
}

}  // namespace trireme
