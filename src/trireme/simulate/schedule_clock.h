// Seconds of a pipeline's step by the order of its schedule: fast enough to rank thousands of
// layouts, without their programs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "trireme/cost/estimate.h"
#include "trireme/cost/step_time.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {

/// Keeps the orders of some schedules that it has met. Not for several threads at once.
class ScheduleClock {
 public:
  /// estimate() with the pipeline's time by the orders of its schedule (program/schedules) instead
  /// of a closed form: a pass of a stage begins when its rank is free and what it needs is there.
  /// Where the optimizer waits for all stages the step ends with the last pass; else
  /// (Profile::has_step_barrier) each rank goes on with the next step. More micro-batches than
  /// fill the pipeline six times are extrapolated, for interleaved schedules where they are a
  /// multiple of the ranks. Without a pipeline, for a schedule that does not take the number of
  /// micro-batches, for more than 65,536 forward passes, and for dualpipe: the closed form.
  [[nodiscard]] Estimate estimate(const Workload& workload, const Cluster& cluster,
                                  const Profile& profile);
  /// Of estimate(), the seconds; `shares` as stage_shares() gives them.
  [[nodiscard]] StepSeconds step_seconds(const Workload& workload, const Cluster& cluster,
                                         const Profile& profile,
                                         const std::vector<StageShare>& shares);

 private:
  struct Pass {
    int rank = 0;
    int duration = 0;      ///< index in the durations by stage and phase
    int needs = -1;        ///< number of a pass of another stage; -1 = none
    bool is_sent = false;  ///< what it needs is on another rank
  };
  /// Of a step, each after what it needs.
  struct Passes {
    std::vector<Pass> passes;
    std::vector<int> rank_of;  ///< by stage
  };
  /// Schedule, ranks, chunks, micro-batches.
  using Key = std::tuple<std::string, int, int, int>;

  [[nodiscard]] static Passes make_passes(const ScheduleShape& shape, const std::string& name);
  [[nodiscard]] const Passes* passes_of(const Layout& layout, int micro_batches);
  [[nodiscard]] double run(const Passes& passes, const std::vector<double>& durations,
                           double latency, bool has_barrier);
  [[nodiscard]] std::optional<PipelineSeconds> pipeline_seconds(
      const Workload& workload, const Profile& profile, const std::vector<StageShare>& chunks,
      const PassTimes& times);

  std::map<Key, std::optional<Passes>> passes_;
  std::vector<double> ends_;  ///< by pass; kept between runs for its memory
};

}  // namespace trireme
