#include "trireme/simulate/schedule_clock.h"

#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/cost/known_models.h"
#include "trireme/cost/stages.h"
#include "trireme/program/schedules/virtual_clock.h"

namespace trireme {
namespace {

struct Site {
  Cluster cluster = read_cluster("h100-dgx");
  Profile profile = read_profile("megatron", cluster);
};

/// Only layers take time: no messages, and next to nothing at the ends of the model.
Site layers_alone() {
  Site site;
  site.cluster.device.memory_bytes_per_second = 1e30;
  site.cluster.device.kernel_seconds = 0;
  site.cluster.link_bytes_per_second = 1e30;
  site.cluster.link_latency_seconds = 0;
  site.profile.ends_seconds = 0;
  site.profile.step_seconds = 0;
  return site;
}

Workload pipeline(const std::string& schedule, int chunks, std::int64_t micro_batches) {
  Workload workload{.model = known_model("llama-3-8b").value(),
                    .layout = {.pp = 4},
                    .batch = {.seq = 4096, .micro_batch = 1, .global_batch = micro_batches}};
  workload.model.layers = 128;
  workload.model.vocab = 8;
  workload.layout.schedule = schedule;
  workload.layout.chunks = chunks;
  return workload;
}

double pipeline_seconds(const StepSeconds& seconds) {
  return seconds.compute + seconds.bubble + seconds.tp + seconds.cp + seconds.pp;
}

double makespan(const Workload& workload, const Site& site) {
  const PassTimes times = pass_times(workload, site.cluster, site.profile);
  const int chunks = std::max(workload.layout.chunks, 1);
  const double layers = static_cast<double>(workload.model.layers) / workload.layout.pp / chunks;
  const Schedule schedule = make_schedule(
      workload.layout.schedule, {.ranks = workload.layout.pp,
                                 .chunks = chunks,
                                 .micro_batches = static_cast<int>(workload.num_micro_batches())});
  return run_virtual_clock(schedule, {.forward = layers * times.layer.forward,
                                      .input = layers * times.layer.input,
                                      .weight = layers * times.layer.weight,
                                      .latency = times.latency})
      .makespan;
}

class EverySchedule : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(EverySchedule, LastsAsLongAsOnTheVirtualClock) {
  Site site = layers_alone();
  site.profile.pipe_exposed = 0;
  site.profile.pipe_bytes_per_second = 1e9;
  const auto& [schedule, chunks] = GetParam();
  // Below, at and far beyond the number from which on time is extrapolated.
  for (const std::int64_t micro_batches : {8, 24, 27, 100, 120, 203}) {
    const Workload workload = pipeline(schedule, chunks, micro_batches);
    const double simulated =
        pipeline_seconds(ScheduleClock().estimate(workload, site.cluster, site.profile).seconds);
    const double expected = makespan(workload, site);
    EXPECT_NEAR(simulated / expected, 1, 1e-4) << micro_batches << " micro-batches";
  }
}

INSTANTIATE_TEST_SUITE_P(ScheduleClock, EverySchedule,
                         testing::Values(std::pair("gpipe", 1), std::pair("1f1b", 1),
                                         std::pair("interleaved", 2), std::pair("interleaved", 4),
                                         std::pair("breadth-first", 2), std::pair("zb-h1", 1),
                                         std::pair("zb-h2", 1), std::pair("zb-v", 2)),
                         [](const auto& of) {
                           std::string name = of.param.first;
                           std::erase(name, '-');
                           return name + std::to_string(of.param.second);
                         });

TEST(ScheduleClock, PricesEqualStagesAsTheClosedFormOf1f1b) {
  const Site site = layers_alone();
  const Workload workload = pipeline("1f1b", 1, 16);
  const double closed = estimate(workload, site.cluster, site.profile).seconds.total();
  EXPECT_NEAR(ScheduleClock().estimate(workload, site.cluster, site.profile).seconds.total(),
              closed, 1e-4 * closed);
}

TEST(ScheduleClock, KeepsTheClosedFormForMicroBatchesThatTheScheduleDoesNotTake) {
  const Site site;
  const Workload workload = pipeline("interleaved", 2, 2);
  EXPECT_EQ(ScheduleClock().estimate(workload, site.cluster, site.profile),
            estimate(workload, site.cluster, site.profile));
}

TEST(ScheduleClock, KeepsTheClosedFormBeyondTheLargestSchedule) {
  const Site site;
  for (const char* const schedule : {"1f1b", "interleaved"}) {
    const Workload workload = pipeline(schedule, 2, 131'075);
    EXPECT_GT(ScheduleClock().estimate(workload, site.cluster, site.profile).seconds.total(), 0);
  }
  const Workload workload = pipeline("interleaved", 2, 131'075);
  EXPECT_EQ(ScheduleClock().estimate(workload, site.cluster, site.profile),
            estimate(workload, site.cluster, site.profile));
}

TEST(ScheduleClock, WithoutABarrierZeroBubbleH2IdlesLess) {
  Site site = layers_alone();
  const Workload workload = pipeline("zb-h2", 1, 16);
  const auto bubble = [&] {
    return ScheduleClock().estimate(workload, site.cluster, site.profile).seconds.bubble;
  };
  const double with_barrier = bubble();
  site.profile.has_step_barrier = false;
  EXPECT_LT(bubble(), 0.5 * with_barrier);
}

/// sail-sg/zero-bubble-pipeline-parallelism, issue 21: 8 H800, a model of 6.2 B parameters, whose
/// sizes are those of arXiv:2401.10241; 1f1b 55 samples/s with 48 GB, interleaved 66 with 57,
/// zero-bubble-2p 67 with 79, zb-v 64 with 53.
class SchedulesOfIssue21 : public testing::Test {
 protected:
  Estimate of(const std::string& schedule, int chunks, std::vector<std::int64_t> stages) {
    Workload workload{.model = {.layers = 30,
                                .hidden = 4096,
                                .heads = 32,
                                .kv_heads = 32,
                                .head_dim = 128,
                                .ffn = 16384,
                                .vocab = 50304,
                                .positions = 1024,
                                .is_tied = true,
                                .has_biases = true},
                      .layout = {.pp = 8},
                      .batch = {.seq = 1024, .micro_batch = 3, .global_batch = 72},
                      .precision = ComputePrecision::kFp16};
    workload.layout.schedule = schedule;
    workload.layout.chunks = chunks;
    workload.layout.stages = std::move(stages);
    const Cluster cluster = read_cluster("h800-hgx");
    return clock_.estimate(workload, cluster, read_profile("zero-bubble", cluster));
  }
  static std::vector<std::int64_t> ends_with(std::int64_t end, std::size_t stages,
                                             std::int64_t layers) {
    std::vector<std::int64_t> counts(stages, layers);
    counts.front() = counts.back() = end;
    return counts;
  }
  Estimate one_f_one_b() { return of("1f1b", 1, ends_with(3, 8, 4)); }
  Estimate interleaved() { return of("interleaved", 4, ends_with(0, 32, 1)); }
  Estimate zero_bubble_2p() { return of("zb-h2", 1, ends_with(3, 8, 4)); }
  Estimate zero_bubble_v() { return of("zb-v", 2, ends_with(1, 16, 2)); }

 private:
  ScheduleClock clock_;
};

/// But for zb-v, which was measured 3 % behind interleaved and comes out ahead of it: what the
/// issue does not tell of its settings decides between the two.
TEST_F(SchedulesOfIssue21, AreRankedAsMeasuredButForZeroBubbleV) {
  const double slowest = one_f_one_b().seconds.total();
  EXPECT_NEAR(zero_bubble_2p().seconds.total() / zero_bubble_v().seconds.total(), 1, 0.02);
  EXPECT_LT(zero_bubble_2p().seconds.total(), interleaved().seconds.total());
  EXPECT_LT(1.15 * interleaved().seconds.total(), slowest);
  EXPECT_LT(1.15 * zero_bubble_v().seconds.total(), slowest);
}

TEST_F(SchedulesOfIssue21, NeedMemoryInTheOrderMeasured) {
  EXPECT_LT(one_f_one_b().needed_bytes, zero_bubble_v().needed_bytes);
  EXPECT_LT(zero_bubble_v().needed_bytes, interleaved().needed_bytes);
  EXPECT_LT(interleaved().needed_bytes, zero_bubble_2p().needed_bytes);
}

}  // namespace
}  // namespace trireme
