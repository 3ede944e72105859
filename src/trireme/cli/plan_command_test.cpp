// trireme plan from outside: exit codes, messages, JSON, what the trainer makes of its layouts.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/csv.h"
#include "trireme/cli/command_line.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

class PlanCommandTest : public testing::Test {
 protected:
  PlanCommandTest() {
    const std::string model =
        "family = \"llama\"\nlayers = 6\nhidden = 64\nheads = 4\nkv_heads = 2\nffn = 96\n"
        "vocab = 256\nmax_seq = 32\n";
    folder_.write("tiny.toml", model);
    std::string text;
    for (int i = 0; i < 300; ++i) text += "the quick brown fox jumps over the lazy dog. ";
    folder_.write("text.txt", text);
    folder_.write("c.toml",
                  "[run]\nname = \"r\"\nsteps = 1\n[model]\n" + model +
                      "[data]\ntext = [\"text.txt\"]\n[batch]\nseq = 32\nglobal_batch = 12\n"
                      "[precision]\ncompute = \"bf16\"\n");
  }

  [[nodiscard]] CommandResult plan(const std::string& arguments) const {
    return run_trireme(folder_, "plan --cluster h100-dgx " + arguments);
  }
  [[nodiscard]] Json plan_json(const std::string& arguments, int exit_code = 0) const {
    const CommandResult result = plan(arguments + " --json");
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return Json::parse(result.out);
  }
  void expect_usage_error(const std::string& arguments, const std::string& part) const {
    const CommandResult result = plan(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_CONTAINS(result.err, part);
  }

  TestFolder folder_;
};

const std::string kTiny = "--model tiny.toml --gpus 6 --global-batch 12 --seq 32";
const std::string kLlama = "--model llama-3-8b --nodes 1 --global-batch 16 --seq 4096";

TEST_F(PlanCommandTest, TheTrainerTakesEachLayoutThatIsOffered) {
  const Json json = plan_json(kTiny);
  ASSERT_GE(json["plans"].size(), 5U);
  for (const Json& each : json["plans"]) {
    const std::string layout = each["layout"];
    const CommandResult dry =
        run_trireme(folder_, "train c.toml --dry-run --json --layout '" + layout + "'");
    ASSERT_EQ(dry.exit_code, 0) << layout << dry.err;
    EXPECT_EQ(Json::parse(dry.out)["world"], 6) << layout;
  }
}

TEST_F(PlanCommandTest, EmittedConfigurationTrains) {
  std::filesystem::create_directory(folder_.path() / "out");
  const CommandResult result = plan(kTiny + " --top 2 --emit trireme --emit-folder out");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "layout 1 for trireme: wrote out/tiny.toml");
  const CommandResult dry = run_trireme(
      folder_, "train out/tiny.toml --dry-run --json --data.text '[\"text.txt\"]' --run.steps 1");
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(Json::parse(dry.out)["world"], 6);
}

TEST_F(PlanCommandTest, EmittingReplacesNoOtherFile) {
  expect_usage_error(kTiny + " --emit trireme", "./tiny.toml exists with another content");
}

TEST_F(PlanCommandTest, UnknownFrameworkIsNotEmitted) {
  expect_usage_error(kTiny + " --emit nanotrom",
                     "--emit nanotrom: must be one of trireme, torchtitan");
}

TEST_F(PlanCommandTest, JsonHasTheKeysOfTheContract) {
  const Json json = plan_json(kLlama);
  EXPECT_EQ(json["request"]["devices"], 8);
  EXPECT_EQ(json["nearest"], nullptr);
  EXPECT_TRUE(json["rejected"][0].contains("rule") && json["rejected"][0].contains("count"));
  const Json best = json["plans"][0];
  for (const char* key :
       {"layout", "fits", "bytes_per_stage", "step_seconds", "tokens_per_second_per_gpu",
        "mfu_full", "mfu_causal", "bubble_seconds", "exposed_seconds", "band", "why"}) {
    EXPECT_TRUE(best.contains(key)) << key;
  }
  for (const char* axis : {"dp", "tp", "pp", "cp"}) {
    EXPECT_TRUE(best["exposed_seconds"].contains(axis)) << axis;
  }
  EXPECT_LT(best["band"][0], best["band"][1]);
}

TEST_F(PlanCommandTest, CountsAddUpToWhatWasSearched) {
  const Json json = plan_json(kLlama + " --framework megatron");
  std::int64_t sum = json["fitting"];
  for (const Json& rule : json["rejected"]) sum += rule["count"].get<std::int64_t>();
  EXPECT_EQ(json["searched"], sum);
}

TEST_F(PlanCommandTest, WhereNothingFitsItSaysHowMuchIsMissing) {
  const std::string large = "--model llama-3.1-405b --nodes 1 --global-batch 16 --seq 8192";
  const Json json = plan_json(large, 1);
  EXPECT_TRUE(json["plans"].empty());
  EXPECT_GT(json["nearest"]["missing_bytes"], 0);
  const CommandResult text = plan(large);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_CONTAINS(text.out, "it would fit on");
}

TEST_F(PlanCommandTest, WhereOnlyTheLimitsAreInTheWayItSaysSo) {
  const CommandResult result = plan(kLlama + " --max-tp 1 --max-pp 1 --zero 0");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_CONTAINS(result.out, "without the limits given this layout fits:\n    pp=");
  EXPECT_EQ(result.out.find("smaller"), std::string::npos);
}

TEST_F(PlanCommandTest, WhereRulesLeaveNothingItNamesTheTightest) {
  const CommandResult result = plan(kLlama + " --tp 16");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_CONTAINS(result.out, "kv_heads = 8");
}

TEST_F(PlanCommandTest, ATableIsPricedAlikeByPredict) {
  const std::string nanotron = " --framework nanotron";
  folder_.write("plan.csv", plan(kLlama + nanotron + " --csv").out);
  const CommandResult predicted =
      run_trireme(folder_, "predict --cluster h100-dgx plan.csv" + nanotron);
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const CsvTable table = parse_csv(predicted.out, "predicted");
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(table.header.begin(), table.header.end(), name) -
                                    table.header.begin());
  };
  ASSERT_EQ(table.rows.size(), 10U);
  for (const std::vector<std::string>& row : table.rows) {
    EXPECT_EQ(row[column("step_s")], row[column("pred_step_s")]) << row[column("layout")];
  }
}

TEST_F(PlanCommandTest, ExplainsInThreeSteps) {
  const std::string out = plan(kLlama + " --explain").out;
  EXPECT_CONTAINS(out, "1. Does it fit?");
  EXPECT_CONTAINS(out, "2. Does it reach the global batch?");
  EXPECT_CONTAINS(out, "3. Is it fastest?");
  EXPECT_CONTAINS(out, "twice the network between nodes");
}

TEST_F(PlanCommandTest, ThreadsDoNotChangeAByte) {
  EXPECT_EQ(plan(kLlama + " --threads 1 --json").out, plan(kLlama + " --threads 3 --json").out);
}

TEST_F(PlanCommandTest, GpuHoursAreTokensByTokensAnHour) {
  const Json best = plan_json(kLlama + " --tokens 1e12")["plans"][0];
  EXPECT_NEAR(best["gpu_hours"].get<double>(),
              1e12 / best["tokens_per_second_per_gpu"].get<double>() / 3600, 1e-6);
}

TEST_F(PlanCommandTest, CheckpointsHaveAnInterval) {
  EXPECT_CONTAINS(plan(kLlama + " --mtbf-hours 24 --checkpoint-seconds 30").out, "Daly 2006");
}

TEST_F(PlanCommandTest, WhatIsMissingOrUnknownIsNamed) {
  expect_usage_error("--model llama-3-8b --nodes 1 --seq 4096", "--global-batch is missing");
  expect_usage_error("--model llama-9 --nodes 1 --seq 8 --global-batch 1", "--model llama-9");
  expect_usage_error(kLlama + " --framework nanotron --schedule zb-v", "1f1b, gpipe of nanotron");
  expect_usage_error(kLlama + " --precision fp8", "must be bf16 or fp32");
  expect_usage_error("--model llama-3-8b --nodes 1 --global-batch 8 --seq 9999", "seq = 8192");
  expect_usage_error(
      "--model gpt3-175b --nodes 64 --global-batch 64 --seq 4096 --framework megatron",
      "with 2048 learned positions of gpt3-175b");
}

TEST_F(PlanCommandTest, NumbersOutOfRangeAreRefused) {
  for (const char* const option : {"--tokens", "--memory-gib", "--mtbf-hours"}) {
    expect_usage_error(kLlama + " " + option + " nan", "nan: must be a number above 0");
    expect_usage_error(kLlama + " " + option + " 1e300",
                       "1e300: must be a number above 0 and at most");
  }
  expect_usage_error(kLlama + " --mtbf-hours 1 --restart-seconds nan",
                     "must be a number of 0 or more");
  expect_usage_error("--model llama-3-8b --global-batch 16 --seq 4096 --nodes 536870914",
                     "--nodes 536870914: must be at most");
  expect_usage_error(kLlama + " --tp abc", "--tp: abc: must be a whole number of 1 or more");
}

TEST_F(PlanCommandTest, FlagsThatWouldDoNothingAreRefused) {
  for (const char* const flags :
       {"--csv --explain", "--csv --tokens 1e9", "--checkpoint-seconds 3", "--emit-folder .",
        "--sweep s.csv", "--sp 1 --tp 1", "--schedule 1f1b:2", "--tp 2 --max-tp 1"}) {
    EXPECT_EQ(plan(kLlama + " " + flags).exit_code, 2) << flags;
  }
}

TEST_F(PlanCommandTest, EmittedFilesHaveTheWholeNameAndAllDevices) {
  const CommandResult result = plan(
      "--model qwen2.5-0.5b --gpus 12 --global-batch 12 --seq 4096 --tp 1 --dp 12 --emit trireme");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "wrote ./qwen2.5-0.5b.toml");
  EXPECT_CONTAINS(result.out, "--nodes 2 --ntasks 12 --ntasks-per-node 6");
}

TEST_F(PlanCommandTest, WritesAPage) {
  const CommandResult result = plan(kTiny + " --explain --html plan.html");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = content_of((folder_.path() / "plan.html").string());
  EXPECT_CONTAINS(page, "Layouts, fastest first");
  EXPECT_CONTAINS(page, "1. Does it fit?");
}

TEST_F(PlanCommandTest, ThePageOfALargePlanIsBounded) {
  const CommandResult result = plan(
      "--model 80B --gpus 512 --global-batch 4096 --seq 4096 --pp 16 --tp 4 --cp 1 --mbs 1 "
      "--schedule 1f1b --zero 1 --html plan.html");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = content_of((folder_.path() / "plan.html").string());
  EXPECT_CONTAINS(page, " of 512 micro-batches; the others repeat them");
  constexpr std::size_t kMostBytes = 3'000'000;
  EXPECT_LT(page.size(), kMostBytes);
}

TEST_F(PlanCommandTest, WhereNothingFitsThereIsNoPage) {
  const CommandResult result =
      plan("--model llama-3.1-405b --nodes 1 --global-batch 16 --seq 8192 --html plan.html");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_CONTAINS(result.err, "plan.html is not written: there is no layout");
}

TEST_F(PlanCommandTest, SweepStandsBesideThePublishedBest) {
  folder_.write("runs.csv", "model,nodes,dp,tp,pp,mbs,zero,tok_s_gpu\n8B,1,1,1,8,1,0,6806.5\n");
  const CommandResult result =
      run_trireme(folder_, "plan --sweep runs.csv --cluster h100-playbook --framework nanotron");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "6,806");
}

}  // namespace
}  // namespace trireme
