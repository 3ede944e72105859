#include "trireme/data/utf8.h"

#include <cstddef>
#include <cstring>

namespace trireme {
namespace {

struct LeadRule {
  std::size_t length = 0;  ///< of the sequence; 0 = no lead byte
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
};

/// Unicode 15, table 3-7: the lead byte sets the length and narrows the second byte's range.
LeadRule lead_rule(std::uint8_t lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {.length = 2};
  if (lead == 0xE0) return {.length = 3, .second_min = 0xA0};
  if (lead == 0xED) return {.length = 3, .second_max = 0x9F};
  if (lead < 0xF0) return {.length = 3};
  if (lead == 0xF0) return {.length = 4, .second_min = 0x90};
  if (lead < 0xF4) return {.length = 4};
  if (lead == 0xF4) return {.length = 4, .second_max = 0x8F};
  return {};
}

bool starts_with_eight_ascii(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 8) return false;
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return (word & 0x8080808080808080U) == 0;
}

}  // namespace

std::optional<std::int64_t> first_invalid_utf8(std::span<const std::uint8_t> bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (starts_with_eight_ascii(bytes.subspan(at))) {
      at += 8;
      continue;
    }
    const LeadRule rule = lead_rule(bytes[at]);
    bool is_good = rule.length != 0 && rule.length <= bytes.size() - at;
    for (std::size_t i = 1; is_good && i < rule.length; ++i) {
      const std::uint8_t byte = bytes[at + i];
      is_good = i == 1 ? byte >= rule.second_min && byte <= rule.second_max
                       : byte >= 0x80 && byte <= 0xBF;
    }
    if (!is_good) return static_cast<std::int64_t>(at);
    at += rule.length;
  }
  return std::nullopt;
}

}  // namespace trireme
