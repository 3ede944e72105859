#include "trireme/report/utf8.h"

#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "trireme/report/json_text.h"

namespace trireme {
namespace {

TEST(Utf8, SequencesOfEachLengthAreKnown) {
  EXPECT_EQ(utf8_sequence_bytes("a"), 1U);
  EXPECT_EQ(utf8_sequence_bytes("é"), 2U);
  EXPECT_EQ(utf8_sequence_bytes("€"), 3U);
  EXPECT_EQ(utf8_sequence_bytes("\U0001F680"), 4U);
}

TEST(Utf8, OverlongSurrogateCutAndTooLargeFormsAreNone) {
  EXPECT_EQ(utf8_sequence_bytes("\xC0\x80"), 0U);
  EXPECT_EQ(utf8_sequence_bytes("\xE0\x80\x80"), 0U);
  EXPECT_EQ(utf8_sequence_bytes("\xED\xA0\x80"), 0U);
  EXPECT_EQ(utf8_sequence_bytes("\xE2\x82"), 0U);
  EXPECT_EQ(utf8_sequence_bytes("\xF4\x90\x80\x80"), 0U);
  EXPECT_EQ(utf8_sequence_bytes("\x80"), 0U);
}

TEST(Utf8, StrayByteCountsAsOneCodePoint) {
  EXPECT_EQ(num_code_points("a\xFF\u00E9"), 3U);
}

TEST(JsonText, AnyTextPassesAStrictParserUnchanged) {
  const std::string text = std::string("q\" b\\ n\n t\t é \U0001F680 \x01 nul:") + '\0';
  EXPECT_EQ(nlohmann::json::parse(json_text(text)).get<std::string>(), text);
}

TEST(JsonText, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  EXPECT_EQ(nlohmann::json::parse(json_text("a\xFF\xC3")).get<std::string>(), "a\uFFFD\uFFFD");
}

}  // namespace
}  // namespace trireme
