#include "trireme/report/utf8.h"

#include <algorithm>
#include <iterator>

namespace trireme {
namespace {

/// First byte, bytes in all, and range of the second byte, which rules out overlong forms,
/// surrogates and values above U+10FFFF (RFC 3629, section 4).
struct Utf8Form {
  unsigned first_min, first_max;
  std::size_t num_bytes;
  unsigned second_min, second_max;
};
constexpr Utf8Form kUtf8Forms[] = {
    {0x00, 0x7F, 1, 0x00, 0x00}, {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF},
    {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF},
    {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};

bool has_form(std::string_view text, const Utf8Form& form) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < form.first_min || byte(0) > form.first_max || text.size() < form.num_bytes) {
    return false;
  }
  if (form.num_bytes > 1 && (byte(1) < form.second_min || byte(1) > form.second_max)) {
    return false;
  }
  for (std::size_t i = 2; i < form.num_bytes; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::size_t utf8_sequence_bytes(std::string_view text) {
  const auto* const form = std::find_if(std::begin(kUtf8Forms), std::end(kUtf8Forms),
                                        [&](const Utf8Form& each) { return has_form(text, each); });
  return form == std::end(kUtf8Forms) ? 0 : form->num_bytes;
}

std::size_t num_code_points(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    text.remove_prefix(std::max<std::size_t>(utf8_sequence_bytes(text), 1));
  }
  return count;
}

}  // namespace trireme
