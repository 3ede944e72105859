#include "trireme/train/metrics.h"

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <locale>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepMetrics step_metrics(std::int64_t step) {
  return {.step = step,
          .loss = 2.5,
          .grad_norm = 0.75,
          .lr = 2.5e-4,
          .tokens = 384 * step,
          .valid_tokens = 380,
          .step_seconds = 0.5,
          .tokens_per_second = 768.0,
          .tokens_per_second_per_rank = 96.0,
          .mfu = 0.125,
          .memory_bytes = 1048576,
          .skipped = 0};
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A path for this test alone; an earlier run's file is gone.
std::filesystem::path fresh_path() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const auto path = std::filesystem::path(testing::TempDir()) /
                    (std::string("metrics_") + test->name() + ".jsonl");
  std::filesystem::remove(path);
  return path;
}

TEST(MetricsLine, TrainingLineHasTheContractsKeysInOrder) {
  EXPECT_EQ(metrics_line(step_metrics(1)),
            R"({"kind":"train","step":1,"loss":2.5,"grad_norm":0.75,"lr":0.00025,"tokens":384,)"
            R"("valid_tokens":380,"step_seconds":0.5,"tokens_per_second":768.0,)"
            R"("tokens_per_second_per_rank":96.0,"mfu":0.125,"memory_bytes":1048576,"skipped":0})");
}

TEST(MetricsLine, EvaluationLineHasTheContractsKeysInOrder) {
  EXPECT_EQ(metrics_line(EvalMetrics{.step = 20, .loss = 3.25, .tokens = 4096}),
            R"({"kind":"eval","step":20,"loss":3.25,"tokens":4096})");
}

TEST(MetricsLine, NonFiniteNumbersAndAnUnknownMfuAreNull) {
  StepMetrics metrics = step_metrics(3);
  metrics.loss = kNan;
  metrics.grad_norm = kInfinity;
  metrics.lr = -kInfinity;
  metrics.mfu.reset();
  const nlohmann::json line = nlohmann::json::parse(metrics_line(metrics));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_TRUE(line["lr"].is_null());
  EXPECT_TRUE(line["mfu"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(metrics_line(EvalMetrics{.loss = kNan}))["loss"].is_null());
}

TEST(MetricsLine, NumbersReadBackToTheSameBits) {
  for (const double value : {0.1, 1.0 / 3.0, 1e-300, 5e-324, 1.7976931348623157e308, 1e22, -0.0}) {
    SCOPED_TRACE(value);
    StepMetrics metrics = step_metrics(1);
    metrics.loss = value;
    const auto read = nlohmann::json::parse(metrics_line(metrics))["loss"].get<double>();
    EXPECT_EQ(read, value);
    EXPECT_EQ(std::signbit(read), std::signbit(value));
  }
}

/// Writes 0.5 as "0,5" and 1000 as "1.000".
class CommaDecimals : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(MetricsLine, DecimalPointDoesNotDependOnTheLocale) {
  const std::string expected = metrics_line(step_metrics(1000));
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new CommaDecimals));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  EXPECT_EQ(metrics_line(step_metrics(1000)), expected);
  std::setlocale(LC_ALL, "C");
  std::locale::global(before);
}

TEST(TokenRates, EachTokenCountsOnceWhateverTheLayout) {
  // dp 2, tp 2, cp 2, micro-batch 1, seq 64, 3 micro-batches: 2*1*64*3 = 384 tokens (case F04).
  const TokenRates rates = token_rates(384, 0.5, 8);
  EXPECT_EQ(rates.tokens_per_second, 768.0);
  EXPECT_EQ(rates.tokens_per_second_per_rank, 96.0);
}

TEST(MetricsWriter, EachLineIsInTheFileAtOnce) {
  const auto path = fresh_path();
  MetricsWriter writer(path);
  writer.write(step_metrics(1));
  EXPECT_EQ(contents(path), metrics_line(step_metrics(1)) + "\n");
}

TEST(MetricsWriter, NewRunStartsANewFile) {
  const auto path = fresh_path();
  MetricsWriter(path).write(step_metrics(1));
  MetricsWriter writer(path);
  EXPECT_EQ(contents(path), "");
}

TEST(MetricsWriter, ResumeDropsTheLinesBeyondTheCheckpoint) {
  const auto path = fresh_path();
  const EvalMetrics eval{.step = 2, .loss = 3.0, .tokens = 10};
  {
    MetricsWriter writer(path);
    for (std::int64_t step = 1; step <= 4; ++step) {
      writer.write(step_metrics(step));
      if (step == 2) {
        writer.write(eval);
      }
    }
    writer.write(EvalMetrics{.step = 4});
  }
  MetricsWriter writer(path, 2);
  EXPECT_EQ(contents(path), metrics_line(step_metrics(1)) + "\n" + metrics_line(step_metrics(2)) +
                                "\n" + metrics_line(eval) + "\n");
  writer.write(step_metrics(3));
  EXPECT_TRUE(contents(path).ends_with(metrics_line(step_metrics(3)) + "\n"));
}

// A cut line may even hold the step, or lack nothing but its line break.
TEST(MetricsWriter, ResumeDropsACutLastLine) {
  const std::string full = metrics_line(step_metrics(1));
  const auto path = fresh_path();
  for (std::size_t cut = 1; cut <= full.size(); ++cut) {
    SCOPED_TRACE(cut);
    std::ofstream(path, std::ios::binary) << full << '\n' << full.substr(0, cut);
    MetricsWriter writer(path, 5);
    EXPECT_EQ(contents(path), full + "\n");
  }
}

TEST(MetricsWriter, ResumeDropsACutLineThatALaterRunContinued) {
  const std::string full = metrics_line(step_metrics(1));
  const auto path = fresh_path();
  std::ofstream(path, std::ios::binary) << full.substr(0, 40) << full << '\n' << full << '\n';
  MetricsWriter writer(path, 5);
  EXPECT_EQ(contents(path), full + "\n");
}

TEST(MetricsWriter, FileThatCannotBeWrittenIsNamed) {
  try {
    MetricsWriter writer("/proc/no_such_folder/metrics.jsonl");
    FAIL() << "no error";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("[metrics] /proc/no_such_folder/metrics.jsonl"),
              std::string::npos);
  }
}

TEST(MetricsWriter, FullDiskIsAnErrorAndLeavesTheOldFile) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  const auto path = fresh_path();
  const std::filesystem::path new_path = path.string() + ".new";
  std::ofstream(path, std::ios::binary) << metrics_line(step_metrics(1)) << '\n';
  std::filesystem::create_symlink("/dev/full", new_path);
  EXPECT_THROW(MetricsWriter(path, 1), ResourceError);
  EXPECT_EQ(contents(path), metrics_line(step_metrics(1)) + "\n");
  std::filesystem::remove(new_path);
}

}  // namespace
}  // namespace trireme
