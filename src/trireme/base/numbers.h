// Numbers in text.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace trireme {

/// Whether all of `text` is a number in the range of `value`'s type; `value` then holds it.
template <typename Number>
[[nodiscard]] bool is_number(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end;
}

}  // namespace trireme
