// Whole runs through the training loop: files, signals, resume.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "step_harness.h"
#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/train/config_file.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Remembers everything, and asks for a stop after a step.
class Recorder final : public TrainObserver {
 public:
  void on_step(const StepMetrics& metrics, bool) override {
    steps.push_back(metrics);
    if (metrics.step == stop_after) stop = 15;
  }
  void on_eval(const EvalMetrics& metrics) override { evals.push_back(metrics); }
  void on_checkpoint(const fs::path& folder) override { checkpoints.push_back(folder); }
  void on_note(std::string_view note) override { notes.emplace_back(note); }

  std::int64_t stop_after = 0;
  std::atomic<int> stop{0};
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::vector<fs::path> checkpoints;
  std::vector<std::string> notes;
};

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              ("trireme_" + std::string(info->name()) + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 400; ++i) text << "line " << i * i << " of a small text that repeats\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] TrainConfig config(const std::string& name,
                                   const std::vector<ConfigOverride>& overrides = {}) const {
    const std::string text = R"(
[run]
steps = 8
eval_every = 3
eval_tokens = 64
seed = 3
peak_gflops = 100
[model]
family = "llama"
layers = 2
hidden = 16
heads = 2
kv_heads = 1
ffn = 24
vocab = 256
max_seq = 16
[data]
text = ["text.txt"]
[batch]
seq = 16
micro_batch = 1
global_batch = 12
[layout]
dp = 2
zero = 1
bucket_mib = 0.01
threads_per_rank = 1
[optimizer]
lr = 1e-2
clip = 0.5
[lr]
shape = "cosine"
warmup_steps = 4
min_lr = 1e-3
)";
    std::vector<ConfigOverride> all = {{"run.dir", folder_.string()}, {"run.name", name}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return checked(parse_config(text, "test.toml", folder_, all));
  }

  TrainResult run(const TrainConfig& config, Recorder& recorder) const {
    const TrainData data(config);
    const RunPlan plan = make_run_plan(config, data.eval_windows());
    fs::create_directories(run_folder(config));
    return train(config, plan, data, recorder, {.stop_signal = &recorder.stop});
  }

  [[nodiscard]] static std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }

  static void expect_equal_files(const fs::path& a, const fs::path& b) {
    for (const char* const file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_FALSE(content(a / file).empty());
      EXPECT_TRUE(content(a / file) == content(b / file)) << file;
    }
  }

  fs::path folder_;
};

TEST_F(Runs, StopAndResumeAtAnyStepEqualsTheStraightRunInEveryBit) {
  for (const std::string compute : {"fp32", "bf16"}) {
    SCOPED_TRACE(compute);
    const auto named = [&](const std::string& name) {
      return config(name + compute, {{"precision.compute", compute}});
    };
    Recorder straight;
    const TrainResult whole = run(named("straight"), straight);
    ASSERT_EQ(whole.run.step, 8);
    for (const std::int64_t stop_after : {1, 3, 7}) {
      SCOPED_TRACE(stop_after);
      const std::string name = "stopped" + std::to_string(stop_after);
      Recorder first, second;
      first.stop_after = stop_after;
      EXPECT_EQ(run(named(name), first).stop_signal, 15);
      EXPECT_EQ(first.steps.size(), static_cast<std::size_t>(stop_after));
      const TrainResult resumed = run(named(name), second);
      EXPECT_EQ(resumed.run, whole.run);
      for (std::size_t i = 0; i < second.steps.size(); ++i) {
        const StepMetrics& expected = straight.steps[static_cast<std::size_t>(stop_after) + i];
        EXPECT_EQ(second.steps[i].step, expected.step);
        EXPECT_EQ(second.steps[i].loss, expected.loss);
        EXPECT_EQ(second.steps[i].lr, expected.lr);
        EXPECT_EQ(second.steps[i].tokens, expected.tokens);
      }
      expect_equal_files(whole.checkpoint, resumed.checkpoint);
    }
  }
}

// karpathy/llm.c 0bc24c3, huggingface/transformers PR 40691, NVIDIA-NeMo/Megatron-Bridge PR 4601:
// in later epochs a resumed run skipped data or saw it twice.
TEST_F(Runs, ResumeInALaterEpochSeesTheSameSamples) {
  for (const char* const file : {"a.txt", "b.txt"}) {
    std::ofstream text(folder_ / file);
    for (int i = 0; i < 15; ++i) text << file << " line " << i * i << "\n";
  }
  const std::string texts = (folder_ / "a.txt").string() + "," + (folder_ / "b.txt").string();
  const auto named = [&](const std::string& name) {
    return config(name, {{"data.text", texts}, {"run.eval_every", "0"}});
  };
  constexpr std::int64_t kStopAfter = 5, kGlobalBatch = 12, kLastSample = 8 * kGlobalBatch;
  const std::int64_t epoch = TrainData(named("straight")).train().index().num_windows();
  ASSERT_GT(kStopAfter * kGlobalBatch, epoch);
  ASSERT_NE(kStopAfter * kGlobalBatch % epoch, 0);
  ASSERT_GT(kLastSample, 2 * epoch);
  Recorder straight, first, second;
  const TrainResult whole = run(named("straight"), straight);
  first.stop_after = kStopAfter;
  run(named("stopped"), first);
  expect_equal_files(whole.checkpoint, run(named("stopped"), second).checkpoint);
  for (std::size_t i = 0; i < second.steps.size(); ++i)
    EXPECT_EQ(second.steps[i].loss, straight.steps[kStopAfter + i].loss);
}

// TensorAuto/OpenTau 185, huggingface/nanotron PR 245: masters and moments passed through bf16.
TEST_F(Runs, CheckpointsOfBf16HoldMastersAndMomentsInFp32) {
  Recorder recorder;
  const TrainResult result = run(config("bf16", {{"precision.compute", "bf16"}}), recorder);
  const ShardedReader model(result.checkpoint), optimizer(result.checkpoint, "optimizer");
  ASSERT_EQ(optimizer.names().size(), 3 * model.names().size());
  bool is_finer = false;
  for (const std::string& name : model.names()) {
    EXPECT_EQ(model.at(name).dtype, DType::kBf16) << name;
    for (const char* const suffix : {".master", ".m", ".v"})
      EXPECT_EQ(optimizer.at(name + suffix).dtype, DType::kF32) << name << suffix;
    const auto weights = read_tensor(model, name, model.at(name).shape);
    const auto masters = read_tensor(optimizer, name + ".master", model.at(name).shape);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(weights[i], to_float(to_bf16(masters[i]))) << name;
      is_finer = is_finer || weights[i] != masters[i];
    }
  }
  EXPECT_TRUE(is_finer);
}

TEST_F(Runs, MetricsOfAResumedRunHoldEachStepOnce) {
  Recorder first, second;
  first.stop_after = 5;
  run(config("a"), first);
  run(config("a"), second);
  std::ifstream lines(folder_ / "a" / "metrics.jsonl");
  std::int64_t next = 1;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] != "train") continue;
    EXPECT_EQ(json["step"], next++);
  }
  EXPECT_EQ(next, 9);
}

// Killed while it removed an old checkpoint behind its last save.
TEST_F(Runs, AFinishedRunRemovesWhatAKillHasLeft) {
  Recorder first, second;
  run(config("a"), first);
  const fs::path checkpoints = folder_ / "a" / "checkpoints";
  fs::create_directory(checkpoints / "step_00000001.incomplete");
  std::ofstream(checkpoints / "latest.incomplete") << "step_00000008";
  run(config("a"), second);
  EXPECT_TRUE(second.steps.empty());
  for (const auto& entry : fs::directory_iterator(checkpoints))
    EXPECT_NE(entry.path().extension(), ".incomplete") << entry.path();
}

TEST_F(Runs, ResumeOnAnotherDpSizeGoesOnToRounding) {
  Recorder straight;
  run(config("straight"), straight);
  for (const char* const dp : {"1", "3", "4"}) {
    SCOPED_TRACE(dp);
    const std::string name = std::string("dp") + dp;
    Recorder first, second;
    first.stop_after = 4;
    run(config(name), first);
    const TrainResult resumed = run(config(name, {{"layout.dp", dp}}), second);
    EXPECT_EQ(resumed.run.step, 8);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(second.steps[i].loss, straight.steps[4 + i].loss, 1e-5);
  }
}

TEST_F(Runs, ResumeUnderAnotherLayoutGoesOnToRounding) {
  using Keys = std::vector<ConfigOverride>;
  const Keys one = {{"model.kv_heads", "2"}, {"layout.dp", "1"}, {"layout.zero", "0"}};
  const Keys cut = {
      {"model.kv_heads", "2"}, {"layout.pp", "2"}, {"layout.tp", "2"}, {"layout.sp", "true"}};
  Recorder straight;
  run(config("straight", one), straight);
  int number = 0;
  for (const auto& [before, after] : {std::pair(&one, &cut), std::pair(&cut, &one)}) {
    const std::string name = "relayout" + std::to_string(number++);
    Recorder first, second;
    first.stop_after = 4;
    run(config(name, *before), first);
    const TrainResult resumed = run(config(name, *after), second);
    EXPECT_EQ(resumed.run.step, 8);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(second.steps[i].loss, straight.steps[4 + i].loss, 1e-5) << name;
  }
}

TEST_F(Runs, ContextParallelRanksReadTheSameTextAndCountTheSameTokens) {
  using Keys = std::vector<ConfigOverride>;
  Recorder one;
  run(config("one", {{"layout.dp", "1"}, {"layout.zero", "0"}}), one);
  int number = 0;
  for (const Keys& keys :
       {Keys{{"layout.dp", "1"}, {"layout.zero", "0"}, {"layout.cp", "2"}},
        Keys{{"layout.dp", "2"}, {"layout.cp", "2"}, {"layout.cp_comm", "all_gather"}}}) {
    Recorder cut;
    run(config("cut" + std::to_string(number++), keys), cut);
    ASSERT_EQ(cut.steps.size(), one.steps.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(cut.steps[i].loss, one.steps[i].loss, 1e-5);
      EXPECT_EQ(cut.steps[i].tokens, one.steps[i].tokens);
      EXPECT_EQ(cut.steps[i].valid_tokens, one.steps[i].valid_tokens);
    }
    ASSERT_EQ(cut.evals.size(), one.evals.size());
    for (std::size_t i = 0; i < one.evals.size(); ++i)
      EXPECT_NEAR(cut.evals[i].loss, one.evals[i].loss, 1e-5);
  }
}

TEST_F(Runs, AChangedLearningRateWinsAndIsNamed) {
  Recorder first, second;
  first.stop_after = 5;
  run(config("a"), first);
  run(config("a", {{"optimizer.lr", "2e-2"}}), second);
  const auto names_the_lr = [](const std::string& note) {
    return note.find("optimizer.lr") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(second.notes.begin(), second.notes.end(), names_the_lr), 1);
  EXPECT_GT(second.steps[0].lr, 1e-2);
}

TEST_F(Runs, AnotherModelInTheSameRunFolderIsRefused) {
  Recorder first, second;
  run(config("a", {{"run.steps", "4"}}), first);
  EXPECT_THROW(run(config("a", {{"model.hidden", "32"}}), second), UsageError);
}

TEST_F(Runs, EvaluationOnOrOffTrainsTheSameWeights) {
  Recorder with, without;
  const TrainResult a = run(config("with"), with);
  const TrainResult b = run(config("without", {{"run.eval_every", "0"}}), without);
  EXPECT_EQ(with.evals.size(), 3U);  // after steps 3, 6 and the last
  EXPECT_TRUE(without.evals.empty());
  expect_equal_files(a.checkpoint, b.checkpoint);
}

TEST_F(Runs, ANonFiniteLossStopsTheRunNamingStepAndRankAndKeepsTheCheckpoint) {
  Recorder recorder;
  const TrainConfig wild = config("wild", {{"optimizer.lr", "1e30"},
                                           {"checkpoint.every", "1"},
                                           {"optimizer.clip", "0"},
                                           {"lr.warmup_steps", "0"}});
  try {
    run(wild, recorder);
    FAIL() << "did not throw";
  } catch (const ResourceError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("step "), std::string::npos) << message;
    EXPECT_NE(message.find("rank"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(static_cast<void>(open_checkpoint(recorder.checkpoints.back())));
}

TEST_F(Runs, ANonFiniteLossIsSkippedAndCountedIfAskedTo) {
  Recorder recorder;
  for (const std::string compute : {"fp32", "bf16"}) {
    const TrainConfig wild = config("wild" + compute, {{"optimizer.lr", "1e30"},
                                                       {"optimizer.clip", "0"},
                                                       {"lr.warmup_steps", "0"},
                                                       {"precision.compute", compute},
                                                       {"run.on_nonfinite", "skip"}});
    const TrainResult result = run(wild, recorder);
    EXPECT_EQ(result.run.step, 8);
    EXPECT_GT(result.run.skipped, 0);
    EXPECT_EQ(result.run.updates + result.run.skipped, 8);
    EXPECT_EQ(recorder.steps.back().skipped, result.run.skipped);
  }
}

TEST_F(Runs, TokensOfAStepAreCountedOnceWhateverTheLayout) {
  for (const char* const dp : {"1", "2", "4"}) {
    Recorder recorder;
    run(config(std::string("dp") + dp, {{"layout.dp", dp}, {"run.steps", "4"}}), recorder);
    EXPECT_EQ(recorder.steps[0].tokens, 12 * 16);
    EXPECT_EQ(recorder.steps[1].tokens, 2 * 12 * 16);
    EXPECT_NEAR(recorder.steps[0].tokens_per_second * recorder.steps[0].step_seconds, 12 * 16,
                1e-6);
  }
}

/// Resident bytes, open files and threads of this process.
struct ProcessSize {
  std::int64_t resident_bytes = 0;
  std::ptrdiff_t num_files = 0, num_threads = 0;
  static ProcessSize now() {
    std::int64_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    const auto entries = [](const char* folder) {
      return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
    };
    return {resident * 4096, entries("/proc/self/fd"), entries("/proc/self/task")};
  }
};

/// Copies the weights of a tied model with one tensor more: the token table, its first value
/// changed unless `first_value` is 0. Returns `folder`.
fs::path weights_with(const fs::path& checkpoint, const fs::path& folder, const std::string& name,
                      float first_value) {
  fs::create_directories(folder);
  const SafetensorsReader reader(checkpoint / "model.safetensors");
  std::vector<TensorSpec> specs;
  std::map<std::string, std::vector<std::byte>> data;
  for (const TensorInfo& tensor : reader.tensors()) {
    specs.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
    data[tensor.name].resize(static_cast<std::size_t>(tensor.bytes));
    reader.read(tensor.name, data[tensor.name]);
  }
  const TensorInfo table = reader.at("model.embed_tokens.weight");
  specs.push_back({.name = name, .dtype = table.dtype, .shape = table.shape});
  data[name] = data[table.name];
  if (first_value != 0) std::memcpy(data[name].data(), &first_value, sizeof(first_value));
  SafetensorsWriter writer(folder / "model.safetensors", specs);
  for (const TensorInfo& tensor : writer.tensors()) writer.write(tensor.name, data[tensor.name]);
  writer.finish();
  return folder;
}

TEST_F(Runs, LoadedWeightsMustAllHaveAPlaceAndATiedHeadMustAgree) {
  const std::vector<ConfigOverride> tied = {
      {"model.tied", "true"}, {"run.steps", "1"}, {"lr.warmup_steps", "0"}};
  Recorder recorder;
  const fs::path saved = run(config("first", tied), recorder).checkpoint;
  const auto outcome = [&](const std::string& name, const std::string& tensor, float value) {
    std::vector<ConfigOverride> overrides = tied;
    const fs::path folder = weights_with(saved, folder_ / (name + "_weights"), tensor, value);
    overrides.emplace_back("model.checkpoint", folder.string());
    try {
      Recorder other;
      static_cast<void>(run(config(name, overrides), other));
      return std::string("loaded");
    } catch (const ResourceError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(outcome("same_head", "lm_head.weight", 0), "loaded");
  EXPECT_NE(outcome("other_head", "lm_head.weight", 3.5F).find("differ, but the model ties them"),
            std::string::npos);
  EXPECT_NE(outcome("third_layer", "model.layers.2.mlp.gate_proj.weight", 0)
                .find("has no place in this model"),
            std::string::npos);
  EXPECT_EQ(outcome("buffer", "model.layers.0.self_attn.rotary_emb.inv_freq", 0), "loaded");
}

// huggingface/transformers 30202, ggml-org/llama.cpp PR 13768: tied models without a head did not
// load, and untied ones without it got a random one.
TEST_F(Runs, ATiedTableIsSavedOnceAndAnUntiedModelNeedsItsHead) {
  const std::vector<ConfigOverride> one_step = {{"run.steps", "1"}, {"lr.warmup_steps", "0"}};
  std::vector<ConfigOverride> tied = one_step, untied = one_step;
  tied.emplace_back("model.tied", "true");
  Recorder recorder;
  const fs::path saved = run(config("tied", tied), recorder).checkpoint;
  EXPECT_EQ(ShardedReader(saved).find("lm_head.weight"), std::nullopt);
  for (auto* const overrides : {&tied, &untied})
    overrides->emplace_back("model.checkpoint", saved.string());
  EXPECT_EQ(run(config("tied_again", tied), recorder).run.step, 1);
  try {
    static_cast<void>(run(config("untied", untied), recorder));
    FAIL() << "made a head up";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("no tensor \"lm_head.weight\""), std::string::npos)
        << error.what();
  }
}

TEST_F(Runs, DamagedCheckpointsAreNeverReplacedByAFreshStart) {
  Recorder recorder;
  const fs::path saved = run(config("damaged"), recorder).checkpoint;
  for (const auto& step : fs::directory_iterator(saved.parent_path())) {
    if (step.is_directory()) fs::resize_file(step.path() / "model.safetensors", 100);
  }
  const std::string metrics = content(folder_ / "damaged" / "metrics.jsonl");
  Recorder again;
  try {
    static_cast<void>(run(config("damaged"), again));
    FAIL() << "started over";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("none that can be used"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(content(folder_ / "damaged" / "metrics.jsonl"), metrics);
}

TEST_F(Runs, AChangedTextIsNotedOnResume) {
  Recorder first, second;
  first.stop_after = 3;
  static_cast<void>(run(config("text"), first));
  std::ofstream(folder_ / "text.txt", std::ios::app) << "one line more\n";
  static_cast<void>(run(config("text"), second));
  EXPECT_TRUE(std::any_of(second.notes.begin(), second.notes.end(), [](const std::string& note) {
    return note.find("the text has changed") != std::string::npos;
  }));
}

TEST_F(Runs, NothingGrowsFromStep50ToStep300) {
  class Watcher final : public TrainObserver {
   public:
    void on_step(const StepMetrics& metrics, bool) override {
      if (metrics.step == 50) early = ProcessSize::now();
      if (metrics.step == 300) late = ProcessSize::now();
    }
    void on_eval(const EvalMetrics&) override {}
    void on_checkpoint(const fs::path&) override {}
    void on_note(std::string_view) override {}
    ProcessSize early, late;
  };
  const TrainConfig long_run = config(
      "long", {{"run.steps", "300"}, {"checkpoint.every", "10"}, {"batch.global_batch", "4"}});
  const TrainData data(long_run);
  const RunPlan plan = make_run_plan(long_run, data.eval_windows());
  fs::create_directories(run_folder(long_run));
  Watcher watcher;
  static_cast<void>(train(long_run, plan, data, watcher));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what was freed
  EXPECT_LE(watcher.late.resident_bytes,
            watcher.early.resident_bytes + watcher.early.resident_bytes / 100);
#endif
  EXPECT_EQ(watcher.late.num_files, watcher.early.num_files);
  EXPECT_EQ(watcher.late.num_threads, watcher.early.num_threads);
}

TEST_F(Runs, InitialCheckpointDoesNotDependOnTheLayout) {
  // With lr ~ 0 nothing moves: what is saved are the initial weights.
  std::vector<std::string> contents;
  for (const char* const dp : {"1", "2", "3"}) {
    Recorder recorder;
    const TrainResult result = run(config(std::string("dp") + dp, {{"layout.dp", dp},
                                                                   {"run.steps", "1"},
                                                                   {"optimizer.lr", "1e-30"},
                                                                   {"lr.min_lr", "0"},
                                                                   {"lr.warmup_steps", "0"}}),
                                   recorder);
    contents.push_back(content(result.checkpoint / "model.safetensors"));
  }
  EXPECT_TRUE(contents[0] == contents[1]);
  EXPECT_TRUE(contents[0] == contents[2]);
}

}  // namespace
}  // namespace trireme
