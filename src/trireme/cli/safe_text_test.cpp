#include "trireme/cli/safe_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(SafeText, WellFormedTextStays) {
  EXPECT_EQ(safe_text("a\tb\n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "a\tb\n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(SafeText, StrayBytesAreReplaced) {
  EXPECT_EQ(safe_text("a\xFF"
                      "b"),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(SafeText, EscapesOfATerminalAreReplaced) {
  EXPECT_EQ(safe_text("\x1B[2J"), "\xEF\xBF\xBD[2J");
}

TEST(SafeText, ControlCharactersOfTwoBytesAreReplaced) {
  EXPECT_EQ(safe_text("\xC2\x9B"), "\xEF\xBF\xBD");
}

TEST(SafeText, CutCharacterAtTheEndIsReplaced) {
  EXPECT_EQ(safe_text("a\xC3"), "a\xEF\xBF\xBD");
}

TEST(SafeText, IncompleteCharacterWaits) {
  SafeText text;
  EXPECT_EQ(text.push(0xC3), "");
  EXPECT_EQ(text.push(0xA9), "\xC3\xA9");
  EXPECT_EQ(text.finish(), "");
}

TEST(SafeText, TokenThatIsNoByteIsReplaced) {
  SafeText text;
  EXPECT_EQ(text.push(256), "\xEF\xBF\xBD");
}

TEST(ByteTokens, AreUnsigned) {
  EXPECT_EQ(byte_tokens("a\xFF"), (std::vector<std::int32_t>{97, 255}));
}

}  // namespace
}  // namespace trireme
