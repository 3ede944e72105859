// bfloat16: the upper half of an IEEE fp32.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

/// Storage only: arithmetic is done in fp32. A trivial type, so that arrays of it are bytes.
struct Bf16 {
  std::uint16_t bits;
  bool operator==(const Bf16&) const = default;
};

[[nodiscard]] constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}
[[nodiscard]] constexpr float to_float(float value) {
  return value;
}

/// To nearest, ties to even; a NaN stays one.
[[nodiscard]] constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  constexpr std::uint32_t kInfinity = 0x7F800000U, kMagnitude = 0x7FFFFFFFU;
  if ((bits & kMagnitude) > kInfinity) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace trireme
