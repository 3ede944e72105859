// What is launched for Trireme itself is what its trainer reads.
#include "trireme/plan/launch/launch.h"

#include <gtest/gtest.h>

#include "trireme/base/test_files.h"
#include "trireme/plan/launch/test_requests.h"
#include "trireme/train/config_file.h"

namespace trireme {
namespace {

/// The config that `trireme train` would read.
TrainConfig read_back(const LaunchRequest& request) {
  const TestFolder folder;
  folder.write("DATA.txt", "text");
  const LaunchFiles files = launch_files(Framework::kTrireme, request);
  return checked(parse_config(files.config, files.config_name, folder.path()));
}

class LaunchedLayout : public testing::TestWithParam<LaunchRequest> {};

INSTANTIATE_TEST_SUITE_P(
    All, LaunchedLayout,
    testing::Values(
        launch_request("llama-3-8b", "pp=2 dp=2 tp=2 sp=1 zero=1 recompute=selective", 64),
        launch_request("llama-3-8b", "pp=4 schedule=interleaved:2 stages=4,4,4,4,4,4,5,3", 8),
        launch_request("llama-3-8b",
                       "dp=4 cp=2 cp_comm=all_gather tp=2 zero=3 reshard=never prefetch=2", 64, 2),
        launch_request("qwen3-32b", "dp=8 dp_shard=2 zero=2 reduce=micro_batch bucket_mib=0.5", 64),
        launch_request("qwen2.5-0.5b", "pp=4 schedule=zb-v dp_sync=naive recompute=full", 16),
        launch_request("gpt2-124m", "dp=4 mbs=4 dp_sync=bucketed", 32)),
    [](const auto& each) { return "case" + std::to_string(each.index); });

TEST_P(LaunchedLayout, IsReadBackByTheTrainer) {
  EXPECT_EQ(read_back(GetParam()).layout, GetParam().layout);
}

TEST_P(LaunchedLayout, HasItsBatch) {
  EXPECT_EQ(read_back(GetParam()).batch, GetParam().batch);
}

TEST_P(LaunchedLayout, HasItsModel) {
  EXPECT_EQ(read_back(GetParam()).model.spec, GetParam().spec);
}

TEST(LaunchedConfig, HasThePrecision) {
  LaunchRequest request = launch_request("gpt2-124m", "dp=4 mbs=4", 32);
  request.precision = ComputePrecision::kFp32;
  EXPECT_EQ(read_back(request).precision.compute, Precision::kFp32);
}

TEST(LaunchedConfig, HasTheOptimizer) {
  LaunchRequest request = launch_request("gpt2-124m", "dp=4 mbs=4", 32);
  request.setting.lr = 6e-5;
  request.setting.min_lr = 1e-6;
  request.setting.weight_decay = 0;
  request.setting.clip = 0;
  const OptimizerConfig expected = {.lr = 6e-5, .weight_decay = 0, .clip = 0};
  EXPECT_EQ(read_back(request).optimizer, expected);
}

TEST(LaunchedConfig, HasTheLearningRatesOfAllSteps) {
  const LaunchRequest request = launch_request("gpt2-124m", "dp=4 mbs=4", 32);
  const LrConfig expected = {.shape = LrShape::kCosine, .warmup_steps = 100, .min_lr = 3e-5};
  EXPECT_EQ(read_back(request).lr, expected);
}

TEST(LaunchedConfig, EscapesThePathOfItsText) {
  LaunchRequest request = launch_request("gpt2-124m", "dp=4", 32);
  const TestFolder folder;
  request.setting.data = folder.write("a \"b\"\\c.txt", "text");
  const LaunchFiles files = launch_files(Framework::kTrireme, request);
  const TrainConfig config = parse_config(files.config, files.config_name, "");
  EXPECT_EQ(config.data.text, std::vector<std::string>{request.setting.data});
}

}  // namespace
}  // namespace trireme
