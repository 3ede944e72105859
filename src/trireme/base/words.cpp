#include "trireme/base/words.h"

namespace trireme {

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& each : result) each = lower_case(each);
  return result;
}

std::string shortened(std::string_view text) {
  std::size_t num_bytes = 60;
  if (text.size() <= num_bytes) return std::string(text);
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (num_bytes > 0 && continues(num_bytes)) --num_bytes;
  return std::string(text.substr(0, num_bytes)) + "...";
}

}  // namespace trireme
