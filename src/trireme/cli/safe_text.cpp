#include "trireme/cli/safe_text.h"

#include <cstddef>

#include "trireme/report/utf8.h"

namespace trireme {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr unsigned kDelete = 0x7F;

bool is_shown(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 2 && first == 0xC2) {  // U+0080 to U+009F are control characters too
    return static_cast<unsigned char>(sequence[1]) >= 0xA0;
  }
  return first == '\n' || first == '\t' || (first >= 0x20 && first != kDelete);
}

/// Bytes that a sequence starting with `first` has; 1 for what starts none.
std::size_t announced_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= 0xF0) return 4;
  if (byte >= 0xE0) return 3;
  return byte >= 0xC2 ? 2 : 1;
}

}  // namespace

std::string SafeText::take(bool is_end) {
  std::string shown;
  while (!pending_.empty()) {
    const std::size_t bytes = utf8_sequence_bytes(pending_);
    if (bytes == 0 && !is_end && pending_.size() < announced_bytes(pending_.front())) break;
    const std::string_view sequence = std::string_view(pending_).substr(0, bytes == 0 ? 1 : bytes);
    shown += bytes > 0 && is_shown(sequence) ? sequence : kReplacement;
    pending_.erase(0, sequence.size());
  }
  return shown;
}

std::string SafeText::push(std::int32_t token) {
  constexpr std::int32_t kNumBytes = 256;
  if (token < 0 || token >= kNumBytes) return take(true) + std::string(kReplacement);
  pending_ += static_cast<char>(token);
  return take(false);
}

std::string SafeText::finish() {
  return take(true);
}

std::string safe_text(std::string_view bytes) {
  SafeText text;
  std::string shown;
  for (const std::int32_t token : byte_tokens(bytes)) shown += text.push(token);
  return shown + text.finish();
}

std::vector<std::int32_t> byte_tokens(std::string_view text) {
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace trireme
