// trireme train --layout auto and trireme plan on a calibrated machine.
#include "trireme/cli/auto_layout.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "trireme/base/units.h"
#include "trireme/calibrate/measured_file.h"
#include "trireme/cli/command_line.h"
#include "trireme/cost/cluster.h"
#include "trireme/execute/cpu/threads.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

/// A cluster file of two cores on which time is proportional to work.
std::string machine_text(double memory_bytes) {
  Measurements measurements{.instruction_seconds = 1e-7,
                            .step_seconds = 1e-5,
                            .wake_seconds = 1e-5,
                            .copy_bytes_per_second = 1e9};
  for (int k = 0; k < kNumKernels; ++k) {
    const KernelTable& table = kernel_table(static_cast<Kernel>(k));
    KernelCall call{.kernel = table.kernel};
    for (int i = 0; i < table.num_sizes; ++i) call.sizes.at(static_cast<std::size_t>(i)) = 100;
    for (const int bits : {16, 32}) {
      measurements.kernels[{.call = call, .bits = bits, .threads = 1, .ranks = 2}] =
          1e-9 * call.work();
    }
  }
  for (int t = 0; t < kNumTransfers; ++t) {
    measurements.transfers[{.transfers = static_cast<Transfers>(t), .ranks = 2, .bytes = 1000}] =
        1e-5;
  }
  return quantity_file_text(
      measured_file({.cpu = "Test CPU", .num_cores = 2, .memory_bytes = memory_bytes},
                    measurements),
      cluster_rules());
}

constexpr const char* kModel =
    "family = \"llama\"\nlayers = 2\nhidden = 16\nheads = 4\nkv_heads = 2\nffn = 24\nvocab = 256\n"
    "max_seq = 16\n";

class AutoLayoutTest : public testing::Test {
 protected:
  AutoLayoutTest() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "the quick brown fox jumps over the lazy dog. ";
    folder_.write("text.txt", text);
    folder_.write("machine.toml", machine_text(kGib));
    folder_.write("model.toml", kModel);
    folder_.write("c.toml", std::string("[run]\nname = \"r\"\nsteps = 3\npeak_gflops = 1.0\n") +
                                "[model]\n" + kModel +
                                "[data]\ntext = [\"text.txt\"]\n"
                                "[batch]\nseq = 16\nmicro_batch = 3\nglobal_batch = 4\n"
                                "[layout]\ndp = 7\nbucket_mib = 2\n");
  }
  void SetUp() override {
    if (num_available_cores() < 2) GTEST_SKIP() << "needs teams of two threads";
  }

  [[nodiscard]] CommandResult run(const std::string& arguments) const {
    return run_trireme(folder_, arguments);
  }
  /// `train c.toml --layout auto` and more.
  [[nodiscard]] CommandResult train(const std::string& arguments) const {
    return run("train c.toml --layout auto " + arguments);
  }
  [[nodiscard]] Json dry_run(const std::string& arguments) const {
    const CommandResult result = train("--dry-run --json " + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return content_of((folder_.path() / name).string());
  }
  void expect_usage_error(const std::string& arguments, const std::string& part) const {
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_CONTAINS(result.err, part);
  }

  TestFolder folder_;
};

TEST_F(AutoLayoutTest, DryRunSaysWhatItChoseAndWhy) {
  const CommandResult result = train("--cluster machine.toml --dry-run");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "layouts of 1 to 2 ranks on 2 cores (machine.toml)");
  EXPECT_CONTAINS(result.out, "why     1 has compute: ");
  EXPECT_CONTAINS(result.out, "chosen  ");
  EXPECT_CONTAINS(result.out, "verified: V1 ");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs"));
}

TEST_F(AutoLayoutTest, DryRunJsonHasTheLayoutAlone) {
  const Json json = dry_run("--cluster machine.toml");
  const std::string layout = json["layout"];
  EXPECT_CONTAINS(layout, "bucket_mib=2");  // kept from the config
  EXPECT_LE(json["world"], 2);
}

TEST_F(AutoLayoutTest, AMicroBatchOfTheCommandLineIsKept) {
  EXPECT_EQ(dry_run("--cluster machine.toml --batch.micro_batch 1")["batch"]["micro_batch"], 1);
  EXPECT_EQ(dry_run("--cluster machine.toml --batch.micro_batch 2")["batch"]["micro_batch"], 2);
}

TEST_F(AutoLayoutTest, TrainsWithWhatItChose) {
  const CommandResult result = train("--cluster machine.toml");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, " ms measured (median of 2, without the first)");
  EXPECT_EQ(file("runs/r/log.txt"), result.out);
  const std::string layout = dry_run("--cluster machine.toml --run.name other")["layout"];
  const CommandResult resolved = run("train runs/r/config.toml --dry-run --json");
  EXPECT_EQ(Json::parse(resolved.out)["layout"], layout);
}

TEST_F(AutoLayoutTest, ARunContinuesWithTheLayoutThatItHad) {
  ASSERT_EQ(run("train c.toml --layout 'dp=4 mbs=1 zero=1'").exit_code, 0);
  const CommandResult result = train("--run.steps 4");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "it continues with the layout that it had");
  EXPECT_CONTAINS(result.out, "layout  pp=1 dp=4 ");
}

TEST_F(AutoLayoutTest, TheMachineOfTheRunsFolderIsTaken) {
  std::filesystem::create_directories(folder_.path() / "runs" / "r");
  folder_.write("runs/r/this-machine.toml", machine_text(kGib));
  const CommandResult result = train("--dry-run");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "this-machine.toml) were priced");
}

TEST_F(AutoLayoutTest, WhatDoesNotFitIsRefusedWithTheBytes) {
  folder_.write("small.toml", machine_text(100'000));
  expect_usage_error("train c.toml --layout auto --cluster small.toml",
                     "bytes are missing on this machine for pp=");
}

TEST_F(AutoLayoutTest, APublishedClusterIsRefused) {
  expect_usage_error("train c.toml --layout auto --cluster h100-dgx",
                     "--cluster h100-dgx with --layout auto: must be the machine that trains");
}

TEST_F(AutoLayoutTest, AClusterNeedsAutoAndAutoNoKeysOfTheLayout) {
  expect_usage_error("train c.toml --cluster machine.toml", "give both, or leave it out");
  expect_usage_error("train c.toml --layout auto --layout.dp 2", "give one of them");
}

TEST(PredictedAndMeasured, TheFirstStepDoesNotCount) {
  EXPECT_EQ(predicted_and_measured(0.1, {5, 0.11, 0.2, 0.1}),
            "step    100 ms predicted, 110 ms measured (median of 3, without the first): +10.0 %");
  EXPECT_EQ(predicted_and_measured(0.1, {0.05}),
            "step    100 ms predicted, 50 ms measured (median of 1): -50.0 %");
}

/// `trireme plan` of the model on the machine.
class MachinePlanCommandTest : public AutoLayoutTest {
 protected:
  [[nodiscard]] CommandResult plan(const std::string& arguments) const {
    return run("plan --model model.toml --cluster machine.toml --global-batch 4 --seq 16 " +
               arguments);
  }
};

TEST_F(MachinePlanCommandTest, HasARankOnEachCore) {
  const CommandResult result = plan("--json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["request"]["devices"], 2);
  EXPECT_EQ(json["plans"][0]["band"], nullptr);
  EXPECT_EQ(json["plans"][0]["threads_per_rank"], 1);
  std::int64_t sum = json["fitting"].get<std::int64_t>() + json["not_priced"].get<std::int64_t>();
  for (const Json& rule : json["rejected"]) sum += rule["count"].get<std::int64_t>();
  EXPECT_EQ(json["searched"], sum);
}

TEST_F(MachinePlanCommandTest, HasAsManyRanksAsAreAskedFor) {
  const CommandResult result = plan("--gpus 4 --zero 1 --recompute none --explain");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "4 ranks on 2 cores that share 1.0 GiB");
  EXPECT_CONTAINS(result.out, "tok/s/core");
  EXPECT_CONTAINS(result.out, "twice the global batch");
}

TEST_F(MachinePlanCommandTest, EmitsAConfigurationThatTrains) {
  std::filesystem::create_directory(folder_.path() / "out");
  const CommandResult result = plan("--emit trireme --emit-folder out");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const CommandResult dry =
      run("train out/model.toml --dry-run --json --data.text '[\"text.txt\"]' --run.steps 1");
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(Json::parse(dry.out)["world"], 2);
}

TEST_F(MachinePlanCommandTest, NodesAndOtherFrameworksAreRefused) {
  EXPECT_CONTAINS(plan("--nodes 2").err, "a calibrated machine is one node");
  EXPECT_CONTAINS(plan("--framework nanotron").err, "Trireme's own programs alone");
}

}  // namespace
}  // namespace trireme
