// Sampled bytes as text that a terminal can show. Private to the layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Bytes that arrive one by one, as well-formed UTF-8: bytes that are none, and control characters
/// other than line break and tab, become U+FFFD.
class SafeText {
 public:
  /// What can be shown after one byte more; empty while a character is incomplete. A token that is
  /// no byte counts as a bad one.
  [[nodiscard]] std::string push(std::int32_t token);
  /// The rest at the end of the text.
  [[nodiscard]] std::string finish();

 private:
  std::string take(bool is_end);
  std::string pending_;
};

[[nodiscard]] std::string safe_text(std::string_view bytes);

/// One token per byte.
[[nodiscard]] std::vector<std::int32_t> byte_tokens(std::string_view text);

}  // namespace trireme
