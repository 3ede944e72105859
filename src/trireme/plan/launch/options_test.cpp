// Every option that is written exists in the framework and has a value of its type.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/plan/launch/known_options_ref.h"
#include "trireme/plan/launch/launch.h"
#include "trireme/plan/launch/test_requests.h"

namespace trireme {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;  ///< name, value as written

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The assignments "    c.name = value".
Options python_options(const std::string& config) {
  Options options;
  const std::regex assignment(R"(    c\.([a-z_.]+) = (.*))");
  std::smatch match;
  for (const std::string& line : lines_of(config)) {
    if (std::regex_match(line, match, assignment)) options.emplace_back(match[1], match[2]);
  }
  return options;
}

/// The words of MEGATRON_ARGS=( ... ), a name and what follows up to the next.
Options bash_options(const std::string& config) {
  Options options;
  for (const std::string& line : lines_of(config)) {
    if (!line.starts_with("  --")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.starts_with("--")) {
        options.emplace_back(word, "");
      } else {
        options.back().second += word;
      }
    }
  }
  return options;
}

/// Leaves by dotted names; the items of the one list count as its fields.
Options yaml_options(const std::string& config) {
  Options options;
  std::vector<std::pair<std::size_t, std::string>> parents;  // indentation, key
  for (std::string line : lines_of(config)) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("- ")) line.replace(0, 2, "  ");
    const std::size_t indent = line.find_first_not_of(' ');
    const std::size_t colon = line.find(':');
    while (!parents.empty() && parents.back().first >= indent) parents.pop_back();
    std::string name;
    for (const auto& parent : parents) name += parent.second + ".";
    name += line.substr(indent, colon - indent);
    if (colon + 1 == line.size()) {
      parents.emplace_back(indent, line.substr(indent, colon - indent));
    } else {
      options.emplace_back(name, line.substr(colon + 2));
    }
  }
  return options;
}

Options json_options(const std::string& config) {
  Options options;
  const nlohmann::json flat = nlohmann::json::parse(config).flatten();
  for (const auto& [name, value] : flat.items()) options.emplace_back(name, value.dump());
  return options;
}

struct Target {
  Framework framework;
  const known_options::Table* known;
  Options (*options_of)(const std::string& config);
};

void PrintTo(const Target& target, std::ostream* out) {
  *out << framework_name(target.framework);
}

class OptionsOf : public testing::TestWithParam<Target> {};

INSTANTIATE_TEST_SUITE_P(
    All, OptionsOf,
    testing::Values(Target{Framework::kTorchtitan, &known_options::kTorchtitan, &python_options},
                    Target{Framework::kMegatron, &known_options::kMegatron, &bash_options},
                    Target{Framework::kNanotron, &known_options::kNanotron, &yaml_options},
                    Target{Framework::kPicotron, &known_options::kPicotron, &json_options},
                    Target{Framework::kDeepspeed, &known_options::kDeepspeed, &json_options}),
    [](const auto& each) { return std::string(framework_name(each.param.framework)); });

template <typename T>
T one_of(std::mt19937& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

LaunchRequest random_request(int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto model =
      one_of<std::string>(random, {"llama-3-8b", "llama-3-70b", "qwen2.5-0.5b", "qwen3-32b",
                                   "gpt2-124m", "llama-2-7b", "playbook-1b"});
  LaunchRequest request = launch_request(model, "", 1);
  Layout& layout = request.layout;
  layout.pp = one_of<int>(random, {1, 1, 2, 4});
  layout.dp = one_of<int>(random, {1, 2, 4});
  layout.cp = one_of<int>(random, {1, 1, 2});
  layout.tp = one_of<int>(random, {1, 1, 2, 4});
  layout.sp = layout.tp > 1 && random() % 2 == 0;
  layout.zero = static_cast<int>(random() % 4);
  if (layout.zero > 0 && layout.dp > 1) layout.dp_shard = one_of<int>(random, {0, 0, 2});
  layout.cp_comm = one_of<CpComm>(random, {CpComm::kRing, CpComm::kAllGather});
  layout.recompute =
      one_of<Recompute>(random, {Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  layout.schedule = one_of<std::string>(
      random, {"1f1b", "1f1b", "gpipe", "interleaved", "zb-v", "dualpipe-v", "breadth-first"});
  layout.bucket_mib = one_of<double>(random, {25.0, 0.5, 100.0});
  request.batch.micro_batch = one_of<std::int64_t>(random, {1, 2});
  request.batch.global_batch =
      request.batch.micro_batch * layout.dp * one_of<std::int64_t>(random, {4, 8, 10});
  request.precision = one_of<ComputePrecision>(
      random, {ComputePrecision::kBf16, ComputePrecision::kBf16, ComputePrecision::kFp16,
               ComputePrecision::kFp8, ComputePrecision::kFp32});
  request.setting.nodes = one_of<int>(random, {1, 2});
  if (layout.world() % request.setting.nodes != 0) request.setting.nodes = 1;
  request.setting.devices_per_node = layout.world() / request.setting.nodes;
  if (random() % 2 == 0) request.setting.data = "some data";
  if (random() % 2 == 0) request.setting.tokenizer = "name/tokenizer";
  return request;
}

/// The files of 2000 random layouts, as far as the framework can run them.
std::vector<std::pair<LaunchRequest, LaunchFiles>> accepted(Framework framework) {
  std::vector<std::pair<LaunchRequest, LaunchFiles>> all;
  for (int seed = 0; seed < 2000; ++seed) {
    const LaunchRequest request = random_request(seed);
    try {
      all.emplace_back(request, launch_files(framework, request));
    } catch (const UsageError&) {
      // Refused: refusals_test.cpp.
    }
  }
  return all;
}

TEST_P(OptionsOf, AreKnownAndHaveValuesOfTheirTypes) {
  const Target& target = GetParam();
  std::map<std::string, std::regex> patterns;
  for (const auto& [name, pattern] : *target.known) patterns.emplace(name, pattern);
  const auto all = accepted(target.framework);
  ASSERT_GE(all.size(), 10U);
  for (const auto& [request, files] : all) {
    for (const auto& [name, value] : target.options_of(files.config)) {
      const auto known = target.known->find(name);
      ASSERT_NE(known, target.known->end()) << name << " in:\n" << files.config;
      ASSERT_TRUE(std::regex_match(value, patterns.at(name)))
          << name << " = " << value << ", must be " << known->second;
    }
  }
}

TEST_P(OptionsOf, AreGivenOnce) {
  const Target& target = GetParam();
  for (const auto& [request, files] : accepted(target.framework)) {
    std::vector<std::string> names;
    for (const auto& option : target.options_of(files.config)) names.push_back(option.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    ASSERT_EQ(twice, names.end()) << *twice << " in:\n" << files.config;
  }
}

std::int64_t value_of(const Options& options, const std::string& name, std::int64_t otherwise) {
  for (const auto& option : options) {
    if (option.first == name) return std::stoll(option.second);
  }
  return otherwise;
}

TEST(LaunchedDegrees, OfTorchtitanMultiplyToTheWorld) {
  for (const auto& [request, files] : accepted(Framework::kTorchtitan)) {
    const Options options = python_options(files.config);
    std::int64_t world = 1;
    for (const std::string name :
         {"data_parallel_replicate_degree", "data_parallel_shard_degree", "context_parallel_degree",
          "tensor_parallel_degree", "pipeline_parallel_degree"}) {
      world *= value_of(options, "parallelism." + name, 0);
    }
    ASSERT_EQ(world, request.layout.world()) << files.config;
  }
}

TEST(LaunchedDegrees, OfNanotronMultiplyToTheWorld) {
  for (const auto& [request, files] : accepted(Framework::kNanotron)) {
    const Options options = yaml_options(files.config);
    std::int64_t world = 1;
    for (const std::string name : {"dp", "pp", "tp", "context_parallel_size"}) {
      world *= value_of(options, "parallelism." + name, 0);
    }
    ASSERT_EQ(world, request.layout.world()) << files.config;
  }
}

TEST(LaunchedDegrees, OfPicotronMultiplyToTheWorld) {
  for (const auto& [request, files] : accepted(Framework::kPicotron)) {
    const Options options = json_options(files.config);
    std::int64_t world = 1;
    for (const std::string name : {"tp_size", "cp_size", "pp_size", "dp_size"}) {
      world *= value_of(options, "/distributed/" + name, 0);
    }
    ASSERT_EQ(world, request.layout.world()) << files.config;
  }
}

TEST(LaunchedBatch, OfDeepspeedIsTheProductThatItChecks) {
  for (const auto& [request, files] : accepted(Framework::kDeepspeed)) {
    const Options options = json_options(files.config);
    ASSERT_EQ(value_of(options, "/train_batch_size", 0),
              value_of(options, "/train_micro_batch_size_per_gpu", 0) *
                  value_of(options, "/gradient_accumulation_steps", 0) * request.layout.dp)
        << files.config;
  }
}

TEST(LaunchedBatch, OfMegatronDividesByTheMicroBatchAndDp) {
  for (const auto& [request, files] : accepted(Framework::kMegatron)) {
    const Options options = bash_options(files.config);
    const std::int64_t model_ranks = value_of(options, "--tensor-model-parallel-size", 0) *
                                     value_of(options, "--pipeline-model-parallel-size", 0) *
                                     value_of(options, "--context-parallel-size", 0);
    const std::int64_t dp = request.layout.world() / model_ranks;
    ASSERT_EQ(value_of(options, "--global-batch-size", 0) %
                  (value_of(options, "--micro-batch-size", 0) * dp),
              0)
        << files.config;
  }
}

}  // namespace
}  // namespace trireme
