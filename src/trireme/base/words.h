// Words that people write: names to compare, and values to repeat in messages.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Of ASCII, whatever the locale.
[[nodiscard]] constexpr bool is_letter_or_digit(char each) {
  return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
         (each >= '0' && each <= '9');
}

/// ASCII letters in lower case; all other bytes stay.
[[nodiscard]] constexpr char lower_case(char each) {
  return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
}
[[nodiscard]] std::string lower_case(std::string_view text);

/// For a message: of more than 60 bytes the first 60, which end before a character of UTF-8, and
/// "...".
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace trireme
