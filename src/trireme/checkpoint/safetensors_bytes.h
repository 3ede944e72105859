// Test only: safetensors files made byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

inline std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
  return bytes;
}

/// Length, header and data as they are given: nothing is padded or checked.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return little_endian(header.size()) + std::string(header) + std::string(data);
}

}  // namespace trireme
