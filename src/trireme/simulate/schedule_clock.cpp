#include "trireme/simulate/schedule_clock.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

constexpr std::size_t kPhases = 4;

/// The shape of a layout's schedule; nothing without a pipeline, or if the schedule does not take
/// it, or is one whose stages this clock cannot place.
std::optional<ScheduleShape> shape_of(const std::string& name, int ranks, int chunks,
                                      int micro_batches) {
  const ScheduleKind* const kind = find_schedule_kind(name);
  if (kind == nullptr || kind->is_bidirectional) return std::nullopt;
  const ScheduleShape shape{.ranks = ranks,
                            .chunks = kind->chunks != 0 ? kind->chunks : chunks,
                            .micro_batches = micro_batches};
  constexpr std::int64_t kMostForwards = std::int64_t{1} << 16;
  const std::int64_t forwards = std::int64_t{shape.ranks} * shape.chunks * shape.micro_batches;
  const bool is_large =
      std::max({shape.ranks, shape.chunks, shape.micro_batches}) > kMaxScheduleExtent ||
      forwards > kMostForwards;
  const bool is_refused = kind->refusal != nullptr && !kind->refusal(shape).empty();
  return is_refused || is_large ? std::nullopt : std::optional(shape);
}

/// Seconds of a stage's passes, by phase, and how much of them is messages.
struct StageSeconds {
  std::array<double, kPhases> of_phase{};
  double messages = 0;  ///< of a forward and a backward pass
  [[nodiscard]] double total() const {
    return of_phase[static_cast<std::size_t>(Phase::kForward)] +
           of_phase[static_cast<std::size_t>(Phase::kBackward)];
  }
};

StageSeconds stage_seconds(const StageShare& share, const PassTimes& times, int num_neighbours) {
  PassSeconds seconds;
  const auto add = [&](const PassSeconds& part, double count) {
    seconds.forward += count * part.forward;
    seconds.input += count * part.input;
    seconds.weight += count * part.weight;
  };
  add(times.layer, share.layers);
  if (share.has_embedding) add(times.embedding, 1);
  if (share.has_head) add(times.head, 1);
  const double message = num_neighbours * times.message / 2;
  StageSeconds result;
  result.of_phase = {seconds.forward + message, seconds.input + seconds.weight + message,
                     seconds.input + message, seconds.weight};
  result.messages = 2 * message;
  return result;
}

/// Each rank's passes in its order, every pass after the one that it needs.
template <typename Take>
bool visit_in_order(const Schedule& schedule, Take take) {
  std::vector<std::size_t> next(schedule.orders.size(), 0);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      while (next[rank] < schedule.orders[rank].size() &&
             take(static_cast<int>(rank), schedule.orders[rank][next[rank]].op)) {
        ++next[rank];
        has_moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < schedule.orders[rank].size()) return false;
  }
  return true;
}

}  // namespace

ScheduleClock::Passes ScheduleClock::make_passes(const ScheduleShape& shape,
                                                 const std::string& name) {
  const Schedule schedule = make_schedule(name, shape);
  const auto num_micro_batches = static_cast<std::size_t>(schedule.num_micro_batches);
  const std::size_t num_ops = static_cast<std::size_t>(schedule.num_stages) * num_micro_batches;
  std::vector<int> forward(num_ops, -1);
  std::vector<int> backward(num_ops, -1);
  Passes passes;
  passes.rank_of.resize(static_cast<std::size_t>(schedule.num_stages));
  const auto take = [&](int rank, const StageOp& op) {
    const bool is_forward = op.phase == Phase::kForward;
    const int needed = op.stage + (is_forward ? -1 : 1);
    int needs = -1;
    bool is_sent = false;
    if (op.phase != Phase::kBackwardWeight && needed >= 0 && needed < schedule.num_stages) {
      needs =
          (is_forward ? forward : backward)[static_cast<std::size_t>(needed) * num_micro_batches +
                                            static_cast<std::size_t>(op.micro_batch)];
      if (needs < 0) return false;
      is_sent = passes.passes[static_cast<std::size_t>(needs)].rank != rank;
    }
    const std::size_t index = static_cast<std::size_t>(op.stage) * num_micro_batches +
                              static_cast<std::size_t>(op.micro_batch);
    const auto number = narrow<int>(passes.passes.size());
    if (is_forward) forward[index] = number;
    if (makes_input_gradient(op.phase)) backward[index] = number;
    passes.rank_of[static_cast<std::size_t>(op.stage)] = rank;
    passes.passes.push_back(
        {.rank = rank,
         .duration = op.stage * static_cast<int>(kPhases) + static_cast<int>(op.phase),
         .needs = needs,
         .is_sent = is_sent});
    return true;
  };
  TRI_CHECK(visit_in_order(schedule, take));
  return passes;
}

const ScheduleClock::Passes* ScheduleClock::passes_of(const Layout& layout, int micro_batches) {
  const int chunks = std::max(layout.chunks, 1);
  const Key key{layout.schedule, layout.pp, chunks, micro_batches};
  if (const auto found = passes_.find(key); found != passes_.end())
    return found->second ? &*found->second : nullptr;
  const auto shape = shape_of(layout.schedule, layout.pp, chunks, micro_batches);
  auto& made = passes_[key];
  if (shape) made = make_passes(*shape, layout.schedule);
  return made ? &*made : nullptr;
}

double ScheduleClock::run(const Passes& passes, const std::vector<double>& durations,
                          double latency, bool has_barrier) {
  std::vector<double> now(passes.rank_of.size(), 0.0);
  ends_.resize(passes.passes.size());
  const auto step = [&] {
    for (std::size_t i = 0; i < passes.passes.size(); ++i) {
      const Pass& pass = passes.passes[i];
      double& free = now[static_cast<std::size_t>(pass.rank)];
      const double ready = pass.needs < 0 ? 0
                                          : ends_[static_cast<std::size_t>(pass.needs)] +
                                                (pass.is_sent ? latency : 0);
      free = std::max(free, ready) + durations[static_cast<std::size_t>(pass.duration)];
      ends_[i] = free;
    }
    return *std::max_element(now.begin(), now.end());
  };
  const double first = step();
  return has_barrier ? first : step() - first;
}

std::optional<PipelineSeconds> ScheduleClock::pipeline_seconds(
    const Workload& workload, const Profile& profile, const std::vector<StageShare>& chunks,
    const PassTimes& times) {
  const int ranks = workload.layout.pp;
  const auto all = narrow<int>(workload.num_micro_batches());
  // Once the pipeline is full its idle time grows by as much for every further round.
  constexpr int kFilled = 4, kMore = 2;
  const int less = kFilled * ranks + all % ranks;
  const int more = less + kMore * ranks;
  // Groups of the interleaved schedules are alike for all multiples of the ranks.
  const bool has_like_groups = all % ranks == 0 || workload.layout.chunks <= 1;
  const bool is_periodic = all > more && has_like_groups;
  const Passes* const passes = passes_of(workload.layout, is_periodic ? more : all);
  if (passes == nullptr || passes->rank_of.size() != chunks.size()) return std::nullopt;
  std::vector<double> durations;
  std::vector<double> busy(static_cast<std::size_t>(ranks), 0.0);
  std::vector<double> messages(busy.size(), 0.0);
  for (std::size_t stage = 0; stage < chunks.size(); ++stage) {
    const int rank = passes->rank_of[stage];
    const int neighbours =
        (stage > 0 && passes->rank_of[stage - 1] != rank ? 1 : 0) +
        (stage + 1 < chunks.size() && passes->rank_of[stage + 1] != rank ? 1 : 0);
    const StageSeconds seconds = stage_seconds(chunks[stage], times, neighbours);
    durations.insert(durations.end(), seconds.of_phase.begin(), seconds.of_phase.end());
    busy[static_cast<std::size_t>(rank)] += seconds.total();
    messages[static_cast<std::size_t>(rank)] += seconds.messages;
  }
  const auto busiest = std::max_element(busy.begin(), busy.end());
  const auto idle = [&](const Passes& of, int micro_batches) {
    return run(of, durations, times.latency, profile.has_step_barrier) - micro_batches * *busiest;
  };
  PipelineSeconds result{
      .busy = all * *busiest,
      .messages = all * messages[static_cast<std::size_t>(busiest - busy.begin())]};
  if (!is_periodic) {
    result.idle = idle(*passes, all);
    return result;
  }
  const double idle_more = idle(*passes, more);
  const Passes* const fewer = passes_of(workload.layout, less);
  if (fewer == nullptr) return std::nullopt;
  result.idle = idle_more + (idle_more - idle(*fewer, less)) / (more - less) * (all - more);
  return result;
}

StepSeconds ScheduleClock::step_seconds(const Workload& workload, const Cluster& cluster,
                                        const Profile& profile,
                                        const std::vector<StageShare>& shares) {
  constexpr std::size_t kMostKept = 32;
  if (passes_.size() > kMostKept) passes_.clear();
  if (workload.layout.pp > 1) {
    const PassTimes times = pass_times(workload, cluster, profile);
    const auto pipeline =
        pipeline_seconds(workload, profile, chunk_shares(workload, profile.split), times);
    if (pipeline)
      return trireme::step_seconds(workload, cluster, profile, shares, times, *pipeline);
  }
  return trireme::step_seconds(workload, cluster, profile, shares);
}

Estimate ScheduleClock::estimate(const Workload& workload, const Cluster& cluster,
                                 const Profile& profile) {
  const std::vector<StageShare> shares = stage_shares(workload, profile.split);
  Estimate result = estimate_memory(workload, cluster, profile, shares);
  result.seconds = step_seconds(workload, cluster, profile, shares);
  return result;
}

}  // namespace trireme
