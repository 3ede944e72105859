// Data parallelism naive, bucketed and overlapped over a throttled link, in one run: step times,
// and the three timelines as one picture.
//
//     build/release/trireme_bench_overlap [--svg docs/images/overlap.svg] [--rounds 5]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "trireme/report/step_timeline.h"
#include "trireme/report/timeline_svg.h"
#include "trireme/train/config_file.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 6;

class StepTimes final : public TrainObserver {
 public:
  void on_step(const StepMetrics& metrics, bool) override {
    if (metrics.step > 1) seconds.push_back(metrics.step_seconds);
  }
  void on_eval(const EvalMetrics&) override {}
  void on_checkpoint(const fs::path&) override {}
  void on_note(std::string_view) override {}
  std::vector<double> seconds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Mode {
  std::string name;
  std::vector<double> seconds = {};
  Timeline timeline = {};
};

TrainConfig config_of(const std::string& sync, const fs::path& folder, double gb_per_s,
                      double latency_us) {
  const std::string text = fmt::format(R"(
[run]
steps = {}
peak_gflops = 1
[model]
family = "llama"
layers = 6
hidden = 1024
heads = 16
ffn = 2816
vocab = 256
max_seq = 32
[data]
text = ["text.txt"]
[batch]
seq = 32
micro_batch = 1
global_batch = 2
[layout]
dp = 2
zero = 1
dp_sync = "{}"
bucket_mib = 50
threads_per_rank = 1
link_gb_per_s = {}
link_latency_us = {}
[checkpoint]
resume = "never"
[trace]
steps = [{}]
)",
                                       kSteps, sync, gb_per_s, latency_us, kSteps);
  return checked(
      parse_config(text, "overlap", folder, {{"run.dir", folder.string()}, {"run.name", sync}}));
}

void run_once(Mode& mode, const TrainConfig& config) {
  const TrainData data(config);
  const RunPlan plan = make_run_plan(config, 0);
  fs::remove_all(run_folder(config));
  fs::create_directories(run_folder(config));
  StepTimes times;
  const TrainResult result = train(config, plan, data, times);
  mode.seconds.push_back(median(times.seconds));
  mode.timeline = step_timeline(mode.name, result.traces);
}

int run(int argc, char** argv) {
  CLI::App app("Naive, bucketed and overlapped data parallelism over a throttled link");
  std::string svg;
  int rounds = 5;
  double gb_per_s = 1, latency_us = 20;
  app.add_option("--svg", svg, "file for the picture of the last round");
  app.add_option("--rounds", rounds, "interleaved repetitions");
  app.add_option("--link-gb-per-s", gb_per_s, "bytes per second and rank, in 10^9");
  app.add_option("--link-latency-us", latency_us, "latency of a message");
  CLI11_PARSE(app, argc, argv);
  const fs::path folder = fs::temp_directory_path() / fmt::format("trireme_overlap_{}", ::getpid());
  fs::create_directories(folder);
  std::ofstream text(folder / "text.txt");
  for (int i = 0; i < 2000; ++i)
    text << "a text that only has to be long enough, line " << i << "\n";
  text.close();
  std::array<Mode, 3> modes = {Mode{"naive"}, Mode{"bucketed"}, Mode{"overlapped"}};
  for (int round = 0; round < rounds; ++round) {
    for (Mode& mode : modes) run_once(mode, config_of(mode.name, folder, gb_per_s, latency_us));
  }
  fs::remove_all(folder);
  fmt::print(
      "2 ranks, 1 thread each, ZeRO-1, link {} GB/s and {} us; medians of {} rounds of {} steps\n",
      gb_per_s, latency_us, rounds, kSteps - 1);
  fmt::print("dp_sync      ms/step   relative to naive\n");
  for (const Mode& mode : modes) {
    fmt::print("{:<10} {:>9.1f} {:>19.3f}\n", mode.name, median(mode.seconds) * 1e3,
               median(mode.seconds) / median(modes[0].seconds));
  }
  if (!svg.empty()) {
    const std::array<Timeline, 3> timelines = {modes[0].timeline, modes[1].timeline,
                                               modes[2].timeline};
    std::ofstream(svg) << timeline_svg(timelines);
    fmt::print("picture: {}\n", svg);
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(argc, argv);
}
