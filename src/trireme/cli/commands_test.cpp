// The program from outside: exit codes, messages, output, files.
#include <filesystem>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "trireme/cli/command_line.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

/// A folder with a text and a config of a model that trains in a moment.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "the quick brown fox jumps over the lazy dog. ";
    folder_.write("text.txt", text);
    folder_.write("c.toml", R"([run]
name = "r"
steps = 4
log_every = 1
eval_every = 2
eval_tokens = 64
peak_gflops = 1.0
[model]
family = "llama"
layers = 2
hidden = 16
heads = 4
kv_heads = 2
ffn = 24
vocab = 256
max_seq = 16
[data]
text = ["text.txt"]
[batch]
seq = 16
micro_batch = 1
global_batch = 4
[layout]
dp = 2
zero = 1
threads_per_rank = 1
[checkpoint]
every = 2
[trace]
steps = [2]
)");
  }

  CommandResult run(const std::string& arguments) const { return run_trireme(folder_, arguments); }
  [[nodiscard]] std::string file(const std::string& name) const {
    return content_of((folder_.path() / name).string());
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / name);
  }
  /// Refused with exit code 2 and one line on standard error that holds `part`.
  void expect_usage_error(const std::string& arguments, const std::string& part) const {
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_EQ(result.err.rfind("trireme: [", 0), 0U) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_CONTAINS(result.err, part);
  }

  TestFolder folder_;
};

TEST_F(CommandTest, VersionNamesTheLibraryAndTheInstructionSet) {
  const CommandResult result = run("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_CONTAINS(result.out, "oneDNN");
  EXPECT_CONTAINS(result.out, "kernels ");
}

TEST_F(CommandTest, HelpOfEachCommandHasAnExample) {
  for (const std::string command : {"train", "program", "generate", "eval", "plan", "predict"}) {
    SCOPED_TRACE(command);
    const CommandResult result = run(command + " --help");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_CONTAINS(result.out, "Example: trireme " + command);
  }
}

TEST_F(CommandTest, NoCommandIsAUsageError) {
  expect_usage_error("", "subcommand");
}

TEST_F(CommandTest, UnknownOptionIsAUsageError) {
  expect_usage_error("train c.toml --fast", "--fast");
}

TEST_F(CommandTest, CommandsThatAreNotBuiltAreNamed) {
  expect_usage_error("convert --gpus 8", "convert: this command is not built yet");
}

TEST_F(CommandTest, SimulatePricesABareSchedule) {
  const CommandResult json =
      run("simulate --schedule zb-v --pp 4 --micro-batches 8 --costs F=1,I=1,W=1 --json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out)["makespan_seconds"], 51);
  EXPECT_EQ(Json::parse(json.out)["order"][0][0], "0F0");
  const CommandResult csv =
      run("simulate --schedule zb-v --pp 4 --micro-batches 8 --costs F=1 --csv");
  folder_.write("orders.csv", csv.out);
  const CommandResult again =
      run("simulate --schedule orders.csv "
          "--costs F=1,I=1,W=1 --json");
  EXPECT_EQ(Json::parse(again.out)["starts"], Json::parse(json.out)["starts"]);
}

TEST_F(CommandTest, SimulateRefusesWhatAScheduleDoesNotAllow) {
  expect_usage_error("simulate --schedule zb-h2 --pp 4 --micro-batches 6 --costs F=1",
                     "with pp = 4 and 6 micro-batches: needs at least 2 pp - 1");
  expect_usage_error("simulate --costs F=x", "must be NAME=NUMBER");
  expect_usage_error("simulate --schedule none.csv --costs F=1", "there is no such file");
}

TEST_F(CommandTest, SimulateRefusesOptionsOfAnotherForm) {
  expect_usage_error("simulate c.toml --cluster h100-dgx --schedule gpipe", "--schedule requires");
  expect_usage_error("simulate c.toml --cluster h100-dgx --csv", "--csv requires");
  expect_usage_error("simulate c.toml --cluster h100-dgx --seq 64", "--seq requires");
}

TEST_F(CommandTest, SimulatePricesOneThing) {
  expect_usage_error("simulate", "needs CONFIG and --cluster");
  expect_usage_error("simulate c.toml --costs F=1", "needs CONFIG and --cluster");
}

TEST_F(CommandTest, SimulateNeedsTheBatchOfAModel) {
  expect_usage_error("simulate --model llama-3-8b --cluster h100-dgx --layout pp=2",
                     "needs --layout, --global-batch and --seq");
}

TEST_F(CommandTest, SimulateRefusesAModelThatIsNotTrained) {
  expect_usage_error(
      "simulate --model none --cluster h100-dgx --layout pp=2 --global-batch 4 --seq 1024",
      "no model that Trireme trains");
}

TEST_F(CommandTest, SimulateOfAModelTakesNoKeysOfAConfig) {
  expect_usage_error(
      "simulate --model qwen2.5-0.5b --cluster h100-dgx --layout 'pp=2 dp=2' --global-batch 4 "
      "--seq 1024 --layout.pp 4",
      "--layout.pp is a key of a config");
}

TEST_F(CommandTest, SimulatePricesAModelOnAPublishedCluster) {
  const CommandResult result =
      run("simulate --model qwen2.5-0.5b --cluster h100-dgx --layout 'pp=2 dp=4 zero=1' "
          "--global-batch 16 --seq 1024 --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_GT(json["makespan_seconds"], 0);
  EXPECT_EQ(json["busy_seconds"].size(), 2U);
  EXPECT_EQ(json["peak"][1]["rank"], 4);
  EXPECT_GT(json["peak"][0]["live"].size(), 1U);
}

TEST_F(CommandTest, SimulateSaysWhatWasVerified) {
  const std::string step = "simulate --model qwen2.5-0.5b --cluster h100-dgx --global-batch 256 ";
  EXPECT_CONTAINS(run(step + "--seq 512 --layout 'pp=2 dp=4'").out, " instructions on 8 ranks)");
  EXPECT_CONTAINS(run(step + "--seq 512 --layout 'pp=2 dp=64'").out,
                  " instructions on 2 of 128 ranks, each by itself)");
}

TEST_F(CommandTest, SimulateWritesAPageWithEachRankAndStream) {
  const CommandResult result =
      run("simulate c.toml --layout.pp 2 --cluster h100-dgx --html page.html --trace trace.json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = file("page.html");
  for (const char* const label : {">rank 0<", ">rank 2<", ">compute<", ">pipeline<"})
    EXPECT_CONTAINS(page, label);
}

TEST_F(CommandTest, SimulateShowsARunBesideItsStep) {
  const std::string simulate = "simulate c.toml --cluster h100-dgx --html page.html ";
  ASSERT_EQ(run(simulate + "--trace trace.json").exit_code, 0);
  ASSERT_EQ(run(simulate + "--beside trace.json").exit_code, 0);
  EXPECT_CONTAINS(file("page.html"), ">measured, ");
}

TEST_F(CommandTest, CalibrateRefusesATargetBeforeItMeasures) {
  expect_usage_error("calibrate", "--output is required");
  expect_usage_error("calibrate -o none/x.toml", "is no folder; make it first");
  expect_usage_error("calibrate -o machine", "must end in .toml");
  expect_usage_error("calibrate -o ''", "must name a file");
}

TEST_F(CommandTest, OutputsAreRefusedBeforeTheWork) {
  const std::string step = "simulate c.toml --cluster h100-dgx ";
  expect_usage_error(step + "--trace none/trace.json", "is no folder; make it first");
  expect_usage_error(step + "--html .", "must name a file and is none");
  expect_usage_error("predict --cluster h100-dgx --framework trireme c.csv -o none/out.csv",
                     "is no folder; make it first");
  expect_usage_error("plan --cluster h100-dgx --model llama-3-8b --html none/page.html",
                     "is no folder; make it first, or name another; see trireme plan --help");
}

TEST_F(CommandTest, AMissingTableIsNoCheckpoint) {
  EXPECT_CONTAINS(run("predict --cluster h100-dgx --framework nanotron none.csv").err,
                  "trireme: [file] none.csv: cannot be opened");
}

TEST_F(CommandTest, PredictNamesColumnsThatItDoesNotRead) {
  folder_.write("cases.csv", "model,Nodes,grad_accc,pred_mfu,mfu\nllama-3-8b,1,2,3,4\n");
  const CommandResult result =
      run("predict --cluster h100-dgx --framework nanotron cases.csv -o out.csv");
  EXPECT_CONTAINS(result.err,
                  "columns that are not read: \"Nodes\" (is it nodes?), \"grad_accc\" (is it "
                  "grad_acc?), \"mfu\"\n");
}

TEST_F(CommandTest, MisspeltKeyNamesTheNearest) {
  expect_usage_error("train c.toml --optimizer.learning_rat 1",
                     "did you mean \"lr\" in [optimizer]");
}

TEST_F(CommandTest, UnbuiltDegreesAreNamed) {
  expect_usage_error("train c.toml --layout.dp 1 --layout.zero 0 --layout.ep 2", "ep");
}

TEST_F(CommandTest, KeysOfZeroNeedTheirStage) {
  expect_usage_error("train c.toml --layout.reduce micro_batch", "ZeRO-2 or 3");
  expect_usage_error("train c.toml --layout 'zero=3 dp_sync=naive'", "zero = 3");
}

TEST_F(CommandTest, UnknownPrecisionIsNamed) {
  expect_usage_error("train c.toml --precision.compute float8", "float8");
}

TEST_F(CommandTest, UnbuiltTransportIsNamed) {
  expect_usage_error("train c.toml --layout.transport mpi", "mpi");
}

TEST_F(CommandTest, MissingTextIsNamed) {
  expect_usage_error("train c.toml --data.text gone.txt", "gone.txt");
}

TEST_F(CommandTest, MissingConfigIsNamed) {
  expect_usage_error("train gone.toml", "gone.toml");
}

TEST_F(CommandTest, DryRunMakesNoFolder) {
  const CommandResult result = run("train c.toml --dry-run");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_CONTAINS(result.out, "verified: V1 ");
  EXPECT_CONTAINS(result.out, "2 micro-batches of 1 on each of 2 dp ranks");
  EXPECT_FALSE(has("runs"));
}

TEST_F(CommandTest, DryRunJsonHoldsTheContractsFields) {
  const CommandResult result = run("train c.toml --dry-run --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["world"], 2);
  EXPECT_EQ(json["batch"]["num_micro_batches"], 2);
  EXPECT_EQ(json["batch"]["tokens_per_step"], 64);
  EXPECT_EQ(json["rules"][0], "V1");
  ASSERT_EQ(json["ranks"].size(), 2U);
  const Json& rank = json["ranks"][1];
  EXPECT_EQ(rank["coord"], Json({{"pp", 0}, {"dp", 1}, {"cp", 0}, {"tp", 0}}));
  std::int64_t sum = 0;
  for (const auto& [kind, bytes] : rank["bytes"].items()) sum += bytes.get<std::int64_t>();
  EXPECT_EQ(rank["bytes"].size(), 8U);
  EXPECT_EQ(sum, rank["arena_bytes"]);
}

TEST_F(CommandTest, ParameterCountOfTheDryRunIsTheClosedForm) {
  const Json json = Json::parse(run("train c.toml --dry-run --json").out);
  // Two tables, and per layer q and o (16 x 16), k and v (8 x 16), three of 24 x 16, two norms.
  EXPECT_EQ(json["parameters"], 2 * 256 * 16 + 2 * (2 * 256 + 2 * 128 + 3 * 384 + 32) + 16);
}

TEST_F(CommandTest, TrainingFillsTheRunFolder) {
  const CommandResult result = run("train c.toml --run.sample the");
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  for (const std::string name :
       {"config.toml", "metrics.jsonl", "log.txt", "trace.json",
        "checkpoints/step_00000004/model.safetensors", "checkpoints/step_00000004/config.json"}) {
    EXPECT_TRUE(has("runs/r/" + name)) << name;
  }
  EXPECT_EQ(file("runs/r/log.txt"), result.out);
  EXPECT_EQ(result.out.find('\x1B'), std::string::npos);
  EXPECT_CONTAINS(result.out, "validation loss");
}

TEST_F(CommandTest, PredictedBytesAreTheRealOnes) {
  const CommandResult result = run("train c.toml");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line;
  while (std::getline(lines, line) && line.rfind("rank  memory predicted", 0) != 0) continue;
  std::getline(lines, line);  // the rule
  for (int rank = 0; rank < 2; ++rank) {
    int number = -1;
    std::string predicted, allocated, group, sent_predicted, sent;
    lines >> number >> predicted >> allocated >> group >> sent_predicted >> sent;
    EXPECT_EQ(number, rank);
    EXPECT_EQ(group, "dp");
    EXPECT_EQ(predicted, allocated);
    EXPECT_EQ(sent_predicted, sent);
    EXPECT_NE(sent, "0");
  }
}

TEST_F(CommandTest, ResolvedConfigTrainsTheSame) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const CommandResult again = run("train runs/r/config.toml --run.name again");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(file("runs/r/checkpoints/step_00000004/model.safetensors"),
            file("runs/again/checkpoints/step_00000004/model.safetensors"));
}

TEST_F(CommandTest, TraceIsStrictJson) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const Json trace = Json::parse(file("runs/r/trace.json"));
  EXPECT_FALSE(trace["traceEvents"].empty());
}

TEST_F(CommandTest, StoppedRunSavesAndContinues) {
  const CommandResult stopped = run(
      "train c.toml --run.steps 100000 --run.log_every 1000 --checkpoint.every 0 --run.eval_every "
      "0 --trace.steps '' & "
      "child=$!; until grep -q . runs/r/metrics.jsonl 2>/dev/null || ! kill -0 $child; do sleep "
      "0.05; done; "
      "kill -INT $child; wait $child");
  EXPECT_EQ(stopped.exit_code, 130) << stopped.out << stopped.err;
  EXPECT_CONTAINS(stopped.out, "stopped by signal 2");
  const CommandResult found = run("generate runs/r --prompt a --tokens 3");
  EXPECT_EQ(found.exit_code, 0) << found.err;
}

TEST_F(CommandTest, DumpWritesGradientsOfTheStep) {
  ASSERT_EQ(run("train c.toml --dump d --dump-steps 1,3").exit_code, 0);
  EXPECT_TRUE(has("d/step_1.safetensors"));
  EXPECT_TRUE(has("d/step_3.json"));
  EXPECT_FALSE(has("d/step_2.json"));
}

TEST_F(CommandTest, PrintedProgramsPassTheCheck) {
  const CommandResult printed = run("program c.toml --rank all");
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  folder_.write("p.txt", printed.out);
  const CommandResult checked = run("program --check p.txt");
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_CONTAINS(checked.out, "ok: 2 programs, rules V1 ");
}

TEST_F(CommandTest, ProgramJsonListsEveryInstruction) {
  const CommandResult result = run("program c.toml --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(Json::parse(result.out)["instructions"].empty());
}

TEST_F(CommandTest, EvaluationProgramIsPrinted) {
  const CommandResult result = run("program c.toml --kind eval --rank 1");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("program eval rank=1", 0), 0U);
}

TEST_F(CommandTest, RankOutsideTheWorldIsRefused) {
  expect_usage_error("program c.toml --rank 2", "must be 0 to 1");
}

TEST_F(CommandTest, ProgramWithoutAReductionIsRefusedByTheCheck) {
  std::string text = run("program c.toml --rank all").out;
  const std::size_t reduction = text.find("REDUCE_SCATTER");
  ASSERT_NE(reduction, std::string::npos);
  const std::size_t begin = text.rfind('\n', reduction), end = text.find('\n', reduction);
  text.erase(begin, end - begin);
  folder_.write("mutant.txt", text);
  const CommandResult result = run("program --check mutant.txt");
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_EQ(result.err.rfind("trireme: [V", 0), 0U) << result.err;
}

TEST_F(CommandTest, FileThatIsNoProgramIsAUsageError) {
  folder_.write("p.txt", "hello\n");
  expect_usage_error("program --check p.txt", "line 1");
}

TEST_F(CommandTest, MissingProgramFileIsAUsageError) {
  expect_usage_error("program --check gone.txt", "gone.txt");
}

TEST_F(CommandTest, GenerationIsAFunctionOfTheSeed) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const CommandResult first = run("generate runs/r --prompt 'the ' --tokens 40 --seed 1");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out.rfind("the ", 0), 0U);
  EXPECT_EQ(run("generate runs/r --prompt 'the ' --tokens 40 --seed 1").out, first.out);
  EXPECT_NE(run("generate runs/r --prompt 'the ' --tokens 40 --seed 2").out, first.out);
}

TEST_F(CommandTest, GreedyTextDoesNotDependOnTheLayout) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const std::string command = "generate runs/r --prompt 'the ' --tokens 40 --temperature 0";
  const CommandResult one = run(command);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  for (const std::string layout :
       {"pp=2", "tp=2", "pp=2 tp=2 sp=1 mbs=4", "pp=2 schedule=dualpipe"}) {
    SCOPED_TRACE(layout);
    const CommandResult many = run(command + " --layout '" + layout + "'");
    EXPECT_EQ(many.exit_code, 0) << many.err;
    EXPECT_EQ(many.out, one.out);
  }
}

TEST_F(CommandTest, GenerationRefusesLayoutsByName) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const std::string command = "generate runs/r --prompt a --layout ";
  expect_usage_error(command + "dp=2",
                     "[generate] dp = 2: one text is continued, by one replica of the model; use "
                     "dp = 1");
  expect_usage_error(command + "pp=3", "[layout] pp = 3 with schedule = \"1f1b\" makes 3 stages");
  expect_usage_error(command + "tp=3", "[layout] tp = 3 with [model] heads = 4, kv_heads = 2");
  expect_usage_error(
      command + "cp=2",
      "[generate] cp = 2: one text is continued, by ranks that hold all of it; use cp = 1");
  expect_usage_error(command + "pp=0", "[layout] pp = 0: must be at least 1");
  expect_usage_error(command + "'pp=2 schedule=zigzag'", "zigzag");
  expect_usage_error(command + "'pp=65536 tp=65536'", "use smaller degrees");
}

TEST_F(CommandTest, EvaluationDoesNotDependOnTheNumberOfRanks) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const CommandResult one = run("eval runs/r text.txt --tokens 200 --json");
  const CommandResult two = run("eval runs/r text.txt --tokens 200 --json --layout dp=2");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(Json::parse(one.out)["tokens"], 208);  // 13 windows of 16
  EXPECT_EQ(Json::parse(two.out)["tokens"], 208);
  // Sums of the same 208 losses in double, in another order.
  EXPECT_NEAR(Json::parse(one.out)["loss"].get<double>(),
              Json::parse(two.out)["loss"].get<double>(), 1e-12);
}

TEST_F(CommandTest, EvaluationMayCutSequences) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const Json one = Json::parse(run("eval runs/r text.txt --tokens 200 --json").out);
  for (const std::string layout : {"cp=2", "dp=2 cp=2 cp_comm=all_gather", "cp=2 tp=2 sp=1"}) {
    const CommandResult cut =
        run("eval runs/r text.txt --tokens 200 --json --layout '" + layout + "'");
    ASSERT_EQ(cut.exit_code, 0) << cut.err;
    EXPECT_EQ(Json::parse(cut.out)["tokens"], one["tokens"]);
    EXPECT_NEAR(Json::parse(cut.out)["loss"].get<double>(), one["loss"].get<double>(), 1e-6);
  }
  expect_usage_error("eval runs/r text.txt --layout cp=3",
                     "[layout] cp = 3 with [batch] seq = 16: must be a multiple of 2 * cp = 6");
}

TEST_F(CommandTest, EvaluationOfTheHeldOutTextAgreesWithTraining) {
  ASSERT_EQ(run("train c.toml --data.val_fraction 0.1").exit_code, 0);
  const std::string text = file("text.txt");
  const auto held_out = static_cast<std::size_t>(0.1 * static_cast<double>(text.size()));
  folder_.write("held_out.txt", text.substr(text.size() - held_out));
  const Json json = Json::parse(run("eval runs/r held_out.txt --tokens 64 --json").out);
  std::string metrics = file("runs/r/metrics.jsonl");
  metrics.pop_back();
  const Json last = Json::parse(metrics.substr(metrics.rfind('\n') + 1));
  EXPECT_EQ(last["kind"], "eval");
  EXPECT_EQ(json["tokens"], last["tokens"]);
  EXPECT_NEAR(json["loss"].get<double>(), last["loss"].get<double>(), 1e-6);
}

TEST_F(CommandTest, FolderWithoutACheckpointIsAUsageError) {
  expect_usage_error("generate gone --prompt a", "gone: no such folder");
}

TEST_F(CommandTest, EmptyPromptIsAUsageError) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  expect_usage_error("generate runs/r --prompt ''", "--prompt: is empty");
}

TEST_F(CommandTest, SmallVocabularyCannotReadBytes) {
  folder_.write("config.json", R"({"architectures":["LlamaForCausalLM"],"hidden_size":16,
    "intermediate_size":24,"num_hidden_layers":1,"num_attention_heads":4,"vocab_size":100,
    "rms_norm_eps":1e-5,"max_position_embeddings":16})");
  expect_usage_error("generate . --prompt a", "vocabulary of 100");
}

TEST_F(CommandTest, DamagedCheckpointIsAFailure) {
  ASSERT_EQ(run("train c.toml").exit_code, 0);
  const std::string path = "runs/r/checkpoints/step_00000004/model.safetensors";
  std::filesystem::resize_file(folder_.path() / path, 100);
  const CommandResult result = run("generate runs/r/checkpoints/step_00000004 --prompt a");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_CONTAINS(result.err, "model.safetensors");
}

}  // namespace
}  // namespace trireme
