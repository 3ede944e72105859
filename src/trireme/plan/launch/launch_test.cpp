#include "trireme/plan/launch/launch.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/plan/launch/test_requests.h"
#include "trireme/plan/launch/text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;  ///< framework_layout, of the file in tests/fixtures/launch
  Framework framework;
  LaunchRequest request;
};

void PrintTo(const Case& launched, std::ostream* out) {
  *out << launched.name;
}

LaunchRequest with_precision(LaunchRequest request, ComputePrecision precision) {
  request.precision = precision;
  return request;
}

LaunchRequest with_data(LaunchRequest request, const std::string& data,
                        const std::string& tokenizer) {
  request.setting.data = data;
  request.setting.tokenizer = tokenizer;
  return request;
}

std::vector<Case> trireme_cases() {
  return {
      {"trireme_pp2_dp2_tp2", Framework::kTrireme,
       launch_request("llama-3-8b", "pp=2 dp=2 tp=2 sp=1 zero=1 recompute=selective", 64)},
      {"trireme_interleaved_stages", Framework::kTrireme,
       launch_request("llama-3-8b", "pp=4 schedule=interleaved:2 stages=4,4,4,4,4,4,5,3", 8)},
      {"trireme_cp2_zero3", Framework::kTrireme,
       launch_request("llama-3-8b",
                      "dp=4 cp=2 cp_comm=all_gather tp=2 zero=3 reshard=never prefetch=2", 64, 2)},
      {"trireme_gpt2_fp32", Framework::kTrireme,
       with_data(with_precision(launch_request("gpt2-124m",
                                               "dp=4 zero=2 dp_shard=2 reduce=micro_batch mbs=4 "
                                               "bucket_mib=10",
                                               32),
                                ComputePrecision::kFp32),
                 "corpus.txt", "")},
  };
}

std::vector<Case> torchtitan_cases() {
  return {
      {"torchtitan_dp8_zero3", Framework::kTorchtitan,
       with_data(launch_request("llama-3-8b", "dp=8 zero=3 recompute=full", 64), "",
                 "./assets/hf/Llama-3.1-8B")},
      {"torchtitan_pp2_dp2_tp2", Framework::kTorchtitan,
       launch_request("llama-3-8b", "pp=2 dp=2 tp=2 sp=1 zero=2 recompute=selective", 128)},
      {"torchtitan_cp2_fp8", Framework::kTorchtitan,
       with_precision(launch_request("llama-3-8b", "dp=4 cp=2 zero=3 reshard=never", 64),
                      ComputePrecision::kFp8)},
      {"torchtitan_hybrid_zbv", Framework::kTorchtitan,
       launch_request("qwen3-32b", "pp=4 dp=4 tp=4 sp=1 zero=3 dp_shard=2 schedule=zb-v", 64, 8)},
  };
}

std::vector<Case> megatron_cases() {
  return {
      {"megatron_pp2_dp2_tp2", Framework::kMegatron,
       launch_request("llama-3-8b", "pp=2 dp=2 tp=2 sp=1 zero=1", 128)},
      {"megatron_interleaved_stages", Framework::kMegatron,
       launch_request("llama-3-8b",
                      "pp=4 dp=2 schedule=interleaved:2 stages=3,4,4,4,4,5,5,3 recompute=full",
                      20)},
      {"megatron_fsdp_fp8", Framework::kMegatron,
       with_precision(
           with_data(launch_request("qwen3-32b", "dp=8 cp=2 tp=2 sp=1 zero=3 dp_shard=4", 64, 4),
                     "corpus_text_document", "Qwen/Qwen3-32B"),
           ComputePrecision::kFp8)},
      {"megatron_gpt2_fp16", Framework::kMegatron,
       with_precision(launch_request("gpt2-124m", "dp=8 zero=0 mbs=8 bucket_mib=10", 64),
                      ComputePrecision::kFp16)},
  };
}

std::vector<Case> nanotron_cases() {
  return {
      {"nanotron_dp8_zero1", Framework::kNanotron,
       launch_request("playbook-1b", "dp=8 zero=1 mbs=2", 256)},
      {"nanotron_pp2_dp2_tp2", Framework::kNanotron,
       launch_request("playbook-8b", "pp=2 dp=2 tp=2 sp=1 schedule=gpipe recompute=full", 64)},
      {"nanotron_cp2_qwen", Framework::kNanotron,
       with_data(launch_request("qwen2.5-0.5b", "dp=4 cp=2 tp=2 zero=1", 64, 2), "data/tokenized",
                 "Qwen/Qwen2.5-0.5B")},
  };
}

std::vector<Case> picotron_cases() {
  return {
      {"picotron_dp8", Framework::kPicotron, launch_request("tinyllama-1.1b", "dp=8 mbs=4", 256)},
      {"picotron_pp2_dp2_tp2", Framework::kPicotron,
       with_data(launch_request("llama-2-7b", "pp=2 dp=2 tp=2 schedule=gpipe", 32), "corpus",
                 "meta-llama/Llama-2-7b-hf")},
      {"picotron_cp2", Framework::kPicotron, launch_request("llama-3-8b", "cp=2 tp=8", 16, 2)},
  };
}

std::vector<Case> deepspeed_cases() {
  return {
      {"deepspeed_dp8_zero3", Framework::kDeepspeed,
       launch_request("llama-3-8b", "dp=8 zero=3 recompute=full", 64)},
      {"deepspeed_pp2_dp4", Framework::kDeepspeed,
       launch_request("llama-3-8b", "pp=2 dp=4 zero=1 recompute=full", 64)},
      {"deepspeed_tp2_zero2", Framework::kDeepspeed,
       with_precision(launch_request("llama-3-8b", "dp=4 tp=2 zero=2 bucket_mib=100", 64),
                      ComputePrecision::kFp16)},
      {"deepspeed_cp2", Framework::kDeepspeed,
       launch_request("llama-3-8b", "dp=8 cp=2 zero=1", 64, 2)},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto cases : {trireme_cases(), torchtitan_cases(), megatron_cases(), nanotron_cases(),
                     picotron_cases(), deepspeed_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

/// As the files in tests/fixtures/launch are written.
std::string golden_text(const LaunchFiles& files) {
  std::string text =
      "== " + files.config_name + "\n" + files.config + "== command\n" + files.command;
  if (!files.notes.empty()) text += "== notes\n";
  for (const std::string& note : files.notes) text += note + "\n";
  return text;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class LaunchFilesOf : public testing::TestWithParam<Case> {};

TEST_P(LaunchFilesOf, AreThoseOfTheGoldenFile) {
  const Case& launched = GetParam();
  const std::string text = golden_text(launch_files(launched.framework, launched.request));
  const fs::path golden = fs::path(TRIREME_FIXTURES) / "launch" / (launched.name + ".txt");
  if (text == content_of(golden)) return;
  const fs::path written = fs::path(testing::TempDir()) / (launched.name + ".txt");
  std::ofstream(written, std::ios::binary) << text;
  FAIL() << golden << " differs; what is emitted now is in " << written << ":\n" << text;
}

INSTANTIATE_TEST_SUITE_P(All, LaunchFilesOf, testing::ValuesIn(all_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(Framework, IsFoundByItsName) {
  EXPECT_EQ(find_framework("nanotron"), Framework::kNanotron);
}

TEST(Framework, OfAnotherNameIsNotFound) {
  EXPECT_EQ(find_framework("Nanotron"), std::nullopt);
}

TEST(Framework, NamesAreListedForMessages) {
  EXPECT_EQ(framework_names(), "trireme, torchtitan, megatron, nanotron, picotron, deepspeed");
}

TEST(LaunchText, NumberHasAPointForYamlLoaders) {
  EXPECT_EQ(launch::number(3e-5), "3.0e-05");
}

TEST(LaunchText, WholeNumberHasAPoint) {
  EXPECT_EQ(launch::number(1), "1.0");
}

TEST(LaunchText, ModelNameMakesAFileName) {
  EXPECT_EQ(launch::file_stem("../Qwen/Qwen3 32B"), "_._Qwen_Qwen3_32B");
}

TEST(LaunchText, ModelNameMakesAPythonName) {
  EXPECT_EQ(launch::python_name("Llama-3.1 8B"), "llama_3_1_8b");
}

TEST(LaunchText, ShellWordQuotesWhatTheShellWouldRead) {
  EXPECT_EQ(launch::shell_word("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(LaunchText, PlainShellWordStaysAsItIs) {
  EXPECT_EQ(launch::shell_word("./a-b_c.json"), "./a-b_c.json");
}

TEST(LaunchFiles, DataPathIsQuotedForTheShell) {
  const LaunchRequest request =
      with_data(launch_request("llama-3-8b", "dp=8 zero=1", 64), "a b", "");
  EXPECT_CONTAINS(launch_files(Framework::kMegatron, request).config, "--data-path 'a b'\n");
}

TEST(LaunchFiles, SizesOfTheModelAreDerived) {
  LaunchRequest request = launch_request("llama-2-7b", "dp=8", 64);
  request.spec.kv_heads = 0;
  EXPECT_CONTAINS(launch_files(Framework::kPicotron, request).config,
                  "\"num_key_value_heads\": 32");
}

TEST(LaunchFiles, SeveralNodesRendezvousAtTheFirst) {
  const LaunchFiles files =
      launch_files(Framework::kMegatron, launch_request("llama-3-8b", "dp=16 zero=1", 64, 2));
  EXPECT_CONTAINS(files.command, "--nnodes 2 --nproc-per-node 8 ");
}

}  // namespace
}  // namespace trireme
