#include "trireme/base/csv.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

using Cells = std::vector<std::string>;

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_csv(text, "t.csv"));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Csv, QuotedCellHoldsCommasQuotesAndLines) {
  const CsvTable table = parse_csv("a,b\n\"x,\"\"y\"\"\nz\",2\n", "t.csv");
  EXPECT_EQ(table.header, Cells({"a", "b"}));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0], Cells({"x,\"y\"\nz", "2"}));
}

TEST(Csv, LinesMayEndAsOnWindowsAndStartWithAByteOrderMark) {
  const CsvTable table = parse_csv(
      "\xEF\xBB\xBF"
      "a,b\r\n1,\r\n\"2\",3",
      "t.csv");
  EXPECT_EQ(table.header, Cells({"a", "b"}));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0], Cells({"1", ""}));
  EXPECT_EQ(table.rows[1], Cells({"2", "3"}));
}

TEST(Csv, RowsKeepTheirNumberOfCells) {
  const CsvTable table = parse_csv("a,b\n1\n\n1,2,3\n", "t.csv");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].size(), 1U);
  EXPECT_EQ(table.rows[1].size(), 3U);
}

TEST(Csv, WhatIsWrittenReadsBack) {
  const Cells cells = {"plain", "with, comma", "with \"quote\"", "two\nlines", ""};
  EXPECT_EQ(parse_csv("a,b,c,d,e\n" + csv_line(cells), "t.csv").rows.at(0), cells);
}

TEST(Csv, BrokenTablesAreRefusedWithTheirLine) {
  EXPECT_EQ(refusal(""),
            "[t.csv] has no line: the first one must name the columns; see the reference");
  EXPECT_EQ(refusal("a,b\n1,\"2\n"), "[t.csv:2] a quote is not closed; close it");
  EXPECT_EQ(refusal("a,b\n\"1\"x,2\n"),
            "[t.csv:2] a quote must open or close a cell; double it inside of a quoted cell");
  EXPECT_EQ(refusal("a,b,a\n"), "[t.csv:1] the column \"a\" is named twice; rename one");
}

}  // namespace
}  // namespace trireme
