#include "trireme/report/table.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

using Rows = std::vector<std::vector<std::string>>;

TEST(TextTable, NumbersAreFlushRightAndTextsFlushLeft) {
  EXPECT_EQ(text_table({"layout", "tok/s", "MFU"},
                       Rows{{"dp=2", "12,345", "12.5%"}, {"dp=2 zero=1", "9", "-"}}),
            "layout        tok/s    MFU\n"
            "-----------  ------  -----\n"
            "dp=2         12,345  12.5%\n"
            "dp=2 zero=1       9      -\n");
}

TEST(TextTable, LinesHaveNoTrailingBlanks) {
  EXPECT_EQ(text_table({"a", "note"}, Rows{{"1", "long text"}, {"2", ""}}),
            "a  note\n"
            "-  ---------\n"
            "1  long text\n"
            "2\n");
}

TEST(TextTable, WidthsCountCodePoints) {
  EXPECT_EQ(text_table({"é", "n"}, Rows{{"ab", "1"}, {"ü", "2"}}),
            "é   n\n"
            "--  -\n"
            "ab  1\n"
            "ü   2\n");
}

TEST(TextTable, WithoutRowsOnlyTheHeaderStands) {
  EXPECT_EQ(text_table({"ab", "c"}, Rows{}), "ab  c\n--  -\n");
}

TEST(TextTable, RowOfAnotherLengthIsRefused) {
  EXPECT_THROW(static_cast<void>(text_table({"a", "b"}, Rows{{"1"}})), UsageError);
}

TEST(MillisecondsText, HasNoExponent) {
  EXPECT_EQ(milliseconds_text(23.0874), "23087");
  EXPECT_EQ(milliseconds_text(0.070412), "70.41");
}

}  // namespace
}  // namespace trireme
