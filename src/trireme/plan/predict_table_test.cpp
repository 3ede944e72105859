#include "trireme/plan/predict_table.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

CsvTable published(const std::string& name) {
  std::ifstream file(std::string(TRIREME_PUBLISHED) + "/" + name, std::ios::binary);
  return parse_csv(std::string(std::istreambuf_iterator<char>(file), {}), name);
}

CsvTable predicted(const CsvTable& cases, const char* cluster = "h100-playbook",
                   const char* framework = "nanotron") {
  return predict_table(cases, {.cluster = read_cluster(cluster), .framework = framework});
}

std::size_t column(const CsvTable& table, std::string_view name) {
  const auto found = std::find(table.header.begin(), table.header.end(), name);
  EXPECT_NE(found, table.header.end()) << name;
  return static_cast<std::size_t>(found - table.header.begin());
}

const std::string& cell(const CsvTable& table, std::string_view name, std::size_t row = 0) {
  return table.rows.at(row).at(column(table, name));
}

/// The pred_ columns, in order.
std::vector<std::vector<std::string>> predictions(const CsvTable& table) {
  const std::size_t first = column(table, "pred_step_s");
  std::vector<std::vector<std::string>> result;
  for (const auto& row : table.rows) {
    result.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(first), row.end());
  }
  return result;
}

/// Without the columns that hold what was measured or follows from it.
CsvTable without_measurements(CsvTable table) {
  for (const std::string_view name :
       {"mfu", "mfu_recalc", "tok_s_gpu", "tflops_gpu", "mem_gb", "iter_ms", "params_b", "flag",
        "tp_path_hint", "also_failed", "status", "caveat"}) {
    const auto found = std::find(table.header.begin(), table.header.end(), name);
    if (found == table.header.end()) continue;
    const auto index = found - table.header.begin();
    table.header.erase(found);
    for (auto& row : table.rows) row.erase(row.begin() + index);
  }
  return table;
}

class MeasuredColumns : public testing::TestWithParam<const char*> {};

TEST_P(MeasuredColumns, AreNeverRead) {
  const CsvTable table = published(GetParam());
  EXPECT_EQ(predictions(predicted(table)), predictions(predicted(without_measurements(table))));
}

INSTANTIATE_TEST_SUITE_P(Published, MeasuredColumns,
                         testing::Values("playbook_dev.csv", "playbook_failed_dev.csv",
                                         "vtrain_a100_single.csv", "other_tables.csv"));

TEST(PredictTable, KeepsRowsAndTheirOrder) {
  const CsvTable table = published("playbook_dev.csv");
  const CsvTable result = predicted(table);
  ASSERT_EQ(result.rows.size(), table.rows.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    EXPECT_TRUE(std::equal(table.rows[i].begin(), table.rows[i].end(), result.rows[i].begin()));
  }
}

TEST(PredictTable, ARowThatCannotBePricedHasBlanksAndANote) {
  const CsvTable result = predicted(parse_csv("model,tp\nunheard-of,1\n1B,3\n1B,1\n", "t.csv"));
  EXPECT_EQ(cell(result, "pred_step_s", 0), "");
  EXPECT_EQ(cell(result, "pred_note", 0),
            "model = \"unheard-of\": not known; give layers, hidden, heads, kv_heads, ffn, vocab");
  EXPECT_EQ(cell(result, "pred_note", 1), "tp = 3: must divide heads = 32; use 2 or 4");
  EXPECT_NE(cell(result, "pred_step_s", 2), "");
  EXPECT_EQ(cell(result, "pred_note", 2), "");
}

TEST(PredictTable, ARowOfTheWrongLengthIsNamed) {
  const CsvTable result = predicted(parse_csv("model,tp\n1B\n", "t.csv"));
  EXPECT_EQ(cell(result, "pred_note"), "the row has 1 cells but the header 2 columns");
}

TEST(PredictTable, OlderPredictionsAreReplaced) {
  const CsvTable once = predicted(parse_csv("model,tp\n1B,1\n", "t.csv"));
  EXPECT_EQ(predicted(once), once);
}

TEST(PredictTable, ThroughputIsTokensPerDeviceAndSecond) {
  const CsvTable result =
      predicted(parse_csv("model,dp,mbs,grad_acc,seq\n1B,8,2,16,4096\n", "t.csv"));
  const double seconds = std::stod(cell(result, "pred_step_s"));
  EXPECT_NEAR(std::stod(cell(result, "pred_tok_s_gpu")), 2 * 16 * 4096 / seconds, 1);
  EXPECT_NEAR(std::stod(cell(result, "pred_mfu")), 2 * 16 * 4096 / seconds * 9.664e9 / 989e12,
              1e-3);
}

TEST(PredictTable, AnotherDeviceIsPricedWithItsOwnCluster) {
  const CsvTable result = predicted(
      parse_csv("model,gpu_type\n1B,\n1B,A100-80GB\n1B,H100-80GB (Eos)\n1B,abacus\n", "t.csv"));
  EXPECT_GT(std::stod(cell(result, "pred_step_s", 1)), std::stod(cell(result, "pred_step_s", 0)));
  EXPECT_EQ(cell(result, "pred_step_s", 2), cell(result, "pred_step_s", 0));
  EXPECT_EQ(cell(result, "pred_note", 3),
            "gpu_type = \"abacus\": no cluster file for it; leave it blank to use h100-playbook");
}

// Units: 80 GB are 74.5 GiB, and a device has what its driver reports.
TEST(PredictTable, FitsIsJudgedInBytes) {
  const CsvTable result =
      predicted(parse_csv("model,dp,mbs\n8B,1,1\n1B,1,1\n", "t.csv"), "h100-dgx", "trireme");
  EXPECT_EQ(cell(result, "pred_fits", 0), "0");
  EXPECT_EQ(cell(result, "pred_fits", 1), "1");
}

}  // namespace
}  // namespace trireme
