#include "trireme/report/json_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/report/utf8.h"

namespace trireme {
namespace {

std::string escaped(char c) {
  if (c == '"' || c == '\\') {
    return {'\\', c};
  }
  const bool is_control = static_cast<unsigned char>(c) < 0x20;
  return is_control ? fmt::format("\\u{:04x}", static_cast<unsigned>(c)) : std::string(1, c);
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t num_bytes = utf8_sequence_bytes(text);
    quoted += num_bytes == 1   ? escaped(text.front())
              : num_bytes == 0 ? "\\ufffd"
                               : std::string(text.substr(0, num_bytes));
    text.remove_prefix(std::max<std::size_t>(num_bytes, 1));
  }
  return quoted + '"';
}

}  // namespace trireme
