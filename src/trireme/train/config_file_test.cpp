#include "trireme/train/config_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/train/option.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A folder with a.txt, b.txt and models/tiny.toml, for this test alone.
fs::path fresh_folder() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) / (std::string("config_") + test->name());
  fs::remove_all(folder);
  fs::create_directories(folder / "models");
  std::ofstream(folder / "a.txt") << "text a";
  std::ofstream(folder / "b.txt") << "text b";
  std::ofstream(folder / "models" / "tiny.toml")
      << "family = \"gpt2\"\nlayers = 2\nhidden = 64\nheads = 4\nvocab = 256\nmax_seq = 64\n";
  return folder;
}

TrainConfig parse(std::string_view text, const std::vector<ConfigOverride>& overrides = {}) {
  return parse_config(text, "x.toml", "", overrides);
}

std::string refusal(std::string_view text, const std::vector<ConfigOverride>& overrides = {}) {
  try {
    static_cast<void>(parse(text, overrides));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(ConfigFile, EmptyTextGivesTheDefaults) {
  EXPECT_EQ(parse(""), TrainConfig{});
}

TEST(ConfigFile, ValuesOfEachTypeArrive) {
  const TrainConfig config = parse(R"(
[run]
name = "first"
steps = 12
on_nonfinite = "skip"
[layout]
dp = 2
dp_sync = "bucketed"
bucket_mib = 4
pp = 2
sp = true
schedule = "interleaved"
chunks = 2
stages = [2, 1, 1, 2]
[optimizer]
lr = 1e-3
betas = [0.8, 0.9]
decay_norms = true
[trace]
steps = [3, 4]
)");
  EXPECT_EQ(config.run.name, "first");
  EXPECT_EQ(config.run.steps, 12);
  EXPECT_EQ(config.run.on_nonfinite, OnNonfinite::kSkip);
  EXPECT_EQ(config.layout.dp, 2);
  EXPECT_EQ(config.layout.dp_sync, DpSync::kBucketed);
  EXPECT_EQ(config.layout.bucket_mib, 4.0);
  EXPECT_EQ(config.layout.pp, 2);
  EXPECT_TRUE(config.layout.sp);
  EXPECT_EQ(config.layout.schedule, "interleaved");
  EXPECT_EQ(config.layout.chunks, 2);
  EXPECT_EQ(config.layout.stages, (std::vector<std::int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.8, 0.9}));
  EXPECT_TRUE(config.optimizer.decay_norms);
  EXPECT_EQ(config.trace.steps, (std::vector<std::int64_t>{3, 4}));
}

TEST(ConfigFile, ZeroAndOneAreBooleans) {
  EXPECT_TRUE(parse("[layout]\nsp = 1\n").layout.sp);
  EXPECT_FALSE(parse("[layout]\nsp = 0\n").layout.sp);
  EXPECT_EQ(refusal("[layout]\nsp = 2\n"),
            "[x.toml:2:6] layout.sp = 2 is an integer: must be true or false; for example sp = "
            "false");
}

// Case F01.
TEST(ConfigFile, MisspeltKeyNamesTheNearestOne) {
  EXPECT_EQ(
      refusal("[optimizer]\nlearning_rat = 1e-3\n"),
      "[x.toml:2:1] optimizer.learning_rat = 0.001 is not a known key; did you mean \"lr\" in "
      "[optimizer]?");
}

TEST(ConfigFile, KeyOfAnotherSectionNamesThatSection) {
  EXPECT_EQ(refusal("[run]\nweight_decay = 0.1\n"),
            "[x.toml:2:1] run.weight_decay = 0.1 is not a known key; \"weight_decay\" belongs in "
            "[optimizer]");
}

TEST(ConfigFile, KeyInTheStyleOfOtherTrainersNamesOurs) {
  EXPECT_EQ(refusal("[model]\nnum-layers = 2\n"),
            "[x.toml:2:1] model.num-layers = 2 is not a known key; did you mean \"layers\" in "
            "[model]?");
}

TEST(ConfigFile, MisspeltKeyInTheWrongSectionNamesBoth) {
  EXPECT_EQ(refusal("[run]\nlearning_rat = 1e-3\n"),
            "[x.toml:2:1] run.learning_rat = 0.001 is not a known key; did you mean \"lr\" in "
            "[optimizer]?");
}

TEST(ConfigFile, RepeatedKeyIsNamed) {
  const std::string message = refusal("[optimizer]\nlr = 1e-3\nlr = 1e-4\n");
  EXPECT_TRUE(message.starts_with("[x.toml:3:")) << message;
  EXPECT_NE(message.find("'lr'"), std::string::npos) << message;
}

TEST(ConfigFile, RepeatedSectionIsNamed) {
  const std::string message = refusal("[run]\nsteps = 1\n[lr]\n[run]\nseed = 1\n");
  EXPECT_TRUE(message.starts_with("[x.toml:4:")) << message;
  EXPECT_NE(message.find("'run'"), std::string::npos) << message;
}

TEST(ConfigFile, BrokenSyntaxNamesFileLineAndColumn) {
  const std::string message = refusal("[run]\nsteps = 1\n\n\n\n[lr]\nshape = \"cosine\n");
  EXPECT_TRUE(message.starts_with("[x.toml:7:")) << message;
}

TEST(ConfigFile, UnknownSectionNamesTheNearestOne) {
  EXPECT_EQ(refusal("[optimiser]\nlr = 1e-3\n"),
            "[x.toml:1:2] [optimiser] is not a known section; did you mean [optimizer]? The "
            "sections are run, model, data, batch, layout, precision, optimizer, lr, checkpoint, "
            "trace");
}

TEST(ConfigFile, KeyOutsideOfSectionsNamesItsSection) {
  EXPECT_EQ(
      refusal("weight_decay = 0.1\n"),
      "[x.toml:1:1] weight_decay = 0.1 stands outside of any section; \"weight_decay\" belongs "
      "in [optimizer]");
}

TEST(ConfigFile, SectionWrittenAsAKeyIsRefused) {
  EXPECT_EQ(
      refusal("lr = 0.1\n"),
      "[x.toml:1:1] lr = 0.1 is a float: [lr] is a section; write its keys below a line [lr]");
}

TEST(ConfigFile, TextWhereANumberIsDueIsRefused) {
  EXPECT_EQ(refusal("[optimizer]\nlr = \"0.001\"\n"),
            "[x.toml:2:6] optimizer.lr = \"0.001\" is a text: must be a number > 0; for example lr "
            "= 0.0003");
}

TEST(ConfigFile, IntegerWithAFractionIsRefused) {
  EXPECT_EQ(refusal("[batch]\nseq = 64.0\n"),
            "[x.toml:2:7] batch.seq = 64.0 is a float: must be an integer >= 1; Tokens of one "
            "sequence.");
}

TEST(ConfigFile, WrongElementOfAListIsNamed) {
  EXPECT_EQ(refusal("[optimizer]\nbetas = [0.9, true]\n"),
            "[x.toml:2:9] optimizer.betas[1] = true is a boolean: must be a list of 2 numbers in "
            "[0, 1); for example betas = [0.9, 0.95]");
}

TEST(ConfigFile, ListOfTheWrongLengthIsRefused) {
  EXPECT_EQ(
      refusal("[optimizer]\nbetas = [0.9]\n"),
      "[x.toml:2:9] optimizer.betas = [0.9]: must be a list of 2 numbers in [0, 1); it has 1; "
      "for example betas = [0.9, 0.95], the default");
}

TEST(ConfigFile, ValueWhereAListIsDueIsRefused) {
  EXPECT_EQ(refusal("[trace]\nsteps = 3\n"),
            "[x.toml:2:9] trace.steps = 3 is an integer: must be a list of integers >= 1; for "
            "example steps = []");
}

TEST(ConfigFile, NonFiniteNumberIsRefused) {
  EXPECT_EQ(refusal("[optimizer]\nclip = inf\n"),
            "[x.toml:2:8] optimizer.clip = inf: must be a number >= 0; for example clip = 1.0, the "
            "default");
  EXPECT_NE(refusal("[optimizer]\nlr = nan\n"), "");
}

TEST(ConfigFile, NumberTooLargeForTheFieldIsRefused) {
  EXPECT_EQ(refusal("[layout]\ndp = 4294967297\n"),
            "[x.toml:2:6] layout.dp = 4294967297: must be an integer >= 1; the nearest valid value "
            "is 2147483647");
}

TEST(ConfigFile, UnknownWordNamesTheNearestOne) {
  EXPECT_EQ(refusal("[lr]\nshape = \"cosin\"\n"),
            "[x.toml:2:9] lr.shape = \"cosin\": must be one of constant, cosine, linear, wsd; did "
            "you mean cosine?");
}

TEST(ConfigFile, WhatIsNotBuiltYetIsRefusedByName) {
  EXPECT_EQ(refusal("[checkpoint]\nasync = true\n"),
            "[x.toml:2:9] checkpoint.async = true: saving while training goes on is not built yet; "
            "use async = false");
}

class UnbuiltValue : public testing::TestWithParam<const char*> {};

TEST_P(UnbuiltValue, IsRefused) {
  EXPECT_NE(refusal(GetParam()).find("is not built yet"), std::string::npos) << refusal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Contract, UnbuiltValue,
                         testing::Values("[data]\njsonl = [\"a\"]", "[data]\ntokens = [\"a\"]",
                                         "[data]\ntokenizer = \"tokenizer.json\"",
                                         "[data]\ndocument_mask = true", "[layout]\nep = 2"));

TEST(ConfigFile, TheOneBuiltValueIsAccepted) {
  EXPECT_EQ(refusal("[checkpoint]\nasync = false\n"), "");
}

TEST(ConfigFile, TextIsLookedForNextToTheFile) {
  const fs::path folder = fresh_folder();
  std::ofstream(folder / "run.toml") << "[data]\ntext = [\"a.txt\", \"b.txt\"]\n";
  const TrainConfig config = load_config(folder / "run.toml");
  EXPECT_EQ(config.data.text,
            (std::vector<std::string>{(folder / "a.txt").string(), (folder / "b.txt").string()}));
}

TEST(ConfigFile, MissingTextIsNamedWithThePlacesTried) {
  const fs::path folder = fresh_folder();
  std::ofstream(folder / "run.toml") << "[data]\ntext = [\"missing.txt\"]\n";
  try {
    static_cast<void>(load_config(folder / "run.toml"));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(), "[" + (folder / "run.toml").string() +
                                ":2:8] data.text names \"missing.txt\": must exist in " +
                                folder.string() + " or the current folder; correct the path");
  }
}

TEST(ConfigFile, AnOverriddenPathNeedNotExist) {
  const fs::path folder = fresh_folder();
  std::ofstream(folder / "run.toml") << "[data]\ntext = [\"missing.txt\"]\n";
  const std::string text = (folder / "a.txt").string();
  const TrainConfig config = load_config(folder / "run.toml", {{"data.text", text}});
  EXPECT_EQ(config.data.text, std::vector<std::string>{text});
}

TEST(ConfigFile, MissingConfigFileIsNamed) {
  try {
    static_cast<void>(load_config("no/such.toml"));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] no/such.toml cannot be read: must be a file; correct the "
                 "path");
  }
}

TEST(ConfigFile, KeysOverrideThoseOfTheModelFile) {
  const fs::path folder = fresh_folder();
  const TrainConfig config =
      parse_config("[model]\nlayers = 3\nfile = \"models/tiny.toml\"\n", "x.toml", folder);
  EXPECT_EQ(config.model.spec.family, Family::kGpt2);
  EXPECT_EQ(config.model.spec.hidden, 64);
  EXPECT_EQ(config.model.spec.layers, 3);
  EXPECT_EQ(config.model.file, "");
}

TEST(ConfigFile, OverrideOfTheModelFileReplacesItWhole) {
  const fs::path folder = fresh_folder();
  std::ofstream(folder / "other.toml") << "layers = 5\n";
  const TrainConfig config =
      parse_config("[model]\nfile = \"models/tiny.toml\"\n", "x.toml", folder,
                   {{"model.file", (folder / "other.toml").string()}});
  EXPECT_EQ(config.model.spec.layers, 5);
  EXPECT_EQ(config.model.spec.hidden, 0);
}

TEST(ConfigFile, UnknownKeyOfTheModelFileNamesThatFile) {
  const fs::path folder = fresh_folder();
  std::ofstream(folder / "models" / "bad.toml") << "\nhiden = 64\n";
  try {
    static_cast<void>(parse_config("[model]\nfile = \"models/bad.toml\"\n", "x.toml", folder));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(),
              "[" + (folder / "models" / "bad.toml").string() +
                  ":2:1] model.hiden = 64 is not a known key; did you mean \"hidden\" "
                  "in [model]?");
  }
}

TEST(ConfigOverrides, WinOverTheFile) {
  const TrainConfig config = parse("[optimizer]\nlr = 1e-3\n", {{"optimizer.lr", "2e-3"},
                                                                {"optimizer.betas", "0.5,0.75"},
                                                                {"trace.steps", "[1, 2]"},
                                                                {"run.sample", "1,\"two\" = \\"},
                                                                {"layout.dp_sync", "naive"},
                                                                {"model.tied", "true"}});
  EXPECT_EQ(config.optimizer.lr, 2e-3);
  EXPECT_EQ(config.optimizer.betas, (std::array<double, 2>{0.5, 0.75}));
  EXPECT_EQ(config.trace.steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(config.run.sample, "1,\"two\" = \\");
  EXPECT_EQ(config.layout.dp_sync, DpSync::kNaive);
  EXPECT_TRUE(config.model.spec.tied);
}

TEST(ConfigOverrides, ListOfTextsNeedsNoQuotes) {
  const fs::path folder = fresh_folder();
  const std::string a = (folder / "a.txt").string();
  const std::string b = (folder / "b.txt").string();
  EXPECT_EQ(parse("", {{"data.text", a + "," + b}}).data.text, (std::vector<std::string>{a, b}));
}

TEST(ConfigOverrides, UnreadableValueNamesTheRule) {
  EXPECT_EQ(
      refusal("", {{"run.steps", "many"}}),
      "[--run.steps] \"many\" cannot be read: must be an integer >= 1; Optimizer steps of the "
      "whole run.");
  EXPECT_NE(refusal("", {{"run.steps", ""}}), "");
}

TEST(ConfigOverrides, LineBreakSmugglesInNoKey) {
  EXPECT_NE(refusal("", {{"run.steps", "3\nvalue2 = 4"}}), "");
}

TEST(ConfigOverrides, InvalidUtf8IsRefused) {
  EXPECT_NE(refusal("", {{"run.name", "\xFF"}}), "");
}

TEST(ConfigOverrides, WrongValueNamesTheOverride) {
  EXPECT_EQ(refusal("", {{"run.steps", "1.5"}}),
            "[--run.steps] run.steps = 1.5 is a float: must be an integer >= 1; Optimizer steps of "
            "the whole run.");
}

TEST(ConfigOverrides, UnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(refusal("", {{"run.step", "5"}}),
            "[--run.step] run.step is not a known key; did you mean \"steps\" in [run]?");
  EXPECT_EQ(
      refusal("", {{"steps", "5"}}),
      "[--steps] steps is not of the form section.key; \"steps\" belongs in [run] or [trace]");
  EXPECT_TRUE(
      refusal("", {{"runn.steps", "5"}})
          .starts_with("[--runn.steps] [runn] is not a known section; did you mean [run]?"));
}

TEST(ConfigOverrides, TheSameOneTwiceIsRefused) {
  EXPECT_EQ(refusal("", {{"run.steps", "5"}, {"run.steps", "6"}}),
            "[--run.steps] run.steps is given twice; give it once");
}

/// A config in which no field of the table has its default, as far as values are built.
TrainConfig unusual_config(const fs::path& folder) {
  return parse_config(R"(
[run]
name = "a \"quoted\" \\ name\n🚀\u0001"
dir = "elsewhere"
seed = 9223372036854775807
steps = 123
log_every = 1
eval_every = 7
eval_tokens = 4096
sample = "Once upon"
on_nonfinite = "skip"
peak_gflops = 123.456
[model]
file = "models/tiny.toml"
checkpoint = "models"
kv_heads = 4
head_dim = 16
ffn = 100
rope_base = 500000.0
norm_eps = 1e-6
tied = true
qkv_bias = true
qk_norm = true
dropout = 0.1
[data]
text = ["a.txt", "b.txt"]
val_fraction = 0.3333333333333333
[batch]
seq = 64
micro_batch = 2
global_batch = 16
[layout]
pp = 2
dp = 2
cp = 2
cp_comm = "all_gather"
tp = 4
sp = true
zero = 3
dp_shard = 1
reduce = "micro_batch"
reshard = "never"
prefetch = 2
schedule = "interleaved"
chunks = 3
stages = [1, 2, 3]
dp_sync = "naive"
bucket_mib = 0.1
recompute = "full"
transport = "threads"
timeout_s = 30
threads_per_rank = 1
link_latency_us = 12.5
link_gb_per_s = 1.25
[precision]
compute = "bf16"
reduce = "bf16"
[optimizer]
lr = 1e22
betas = [0.1, 0.2]
eps = 1e-300
weight_decay = 0.0
decay_norms = true
clip = 0.30000000000000004
[lr]
shape = "wsd"
warmup_steps = 5
decay_steps = 6
min_lr = 1e-7
[checkpoint]
every = 10
keep_last = 0
keep_every = 20
resume = "never"
[trace]
steps = [5, 6]
)",
                      "x.toml", folder);
}

TEST(ConfigToml, ReadsBackToTheIdenticalConfig) {
  const TrainConfig config = unusual_config(fresh_folder());
  const std::string text = config_toml(config);
  EXPECT_EQ(parse(text), config) << text;
  EXPECT_EQ(config_toml(parse(text)), text);
}

TEST(ConfigToml, TheRoundTripTestLeavesNoBuiltOptionAtItsDefault) {
  const TrainConfig config = unusual_config(fresh_folder());
  for (const Option& option : train_options()) {
    if (option.unbuilt.empty() && option.name() != "model.file") {
      EXPECT_NE(option.value_in(config), option.default_value) << option.name();
    }
  }
}

TEST(ConfigToml, DefaultsRoundTrip) {
  EXPECT_EQ(parse(config_toml(TrainConfig{})), TrainConfig{});
}

}  // namespace
}  // namespace trireme
