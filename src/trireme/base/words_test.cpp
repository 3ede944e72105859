#include "trireme/base/words.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Words, LowerCaseChangesLettersOfAsciiAlone) {
  EXPECT_EQ(lower_case("H100 SXM \xC3\x84"), "h100 sxm \xC3\x84");
}

TEST(Words, LettersAndDigitsAreThoseOfAscii) {
  EXPECT_TRUE(is_letter_or_digit('z') && is_letter_or_digit('A') && is_letter_or_digit('9'));
  EXPECT_FALSE(is_letter_or_digit('-') || is_letter_or_digit('\xC3'));
}

TEST(Words, SixtyBytesAreNotShortened) {
  EXPECT_EQ(shortened(std::string(60, 'x')), std::string(60, 'x'));
  EXPECT_EQ(shortened(std::string(61, 'x')), std::string(60, 'x') + "...");
}

TEST(Words, ShorteningKeepsCharactersWhole) {
  EXPECT_EQ(shortened(std::string(59, 'x') + "\xC3\x84yy"), std::string(59, 'x') + "...");
}

}  // namespace
}  // namespace trireme
