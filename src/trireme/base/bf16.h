// bfloat16: the upper half of an IEEE fp32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

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

/// The bf16 of each value, at `to`, which may be where the values begin: what is read comes first.
inline void round_to_bf16(std::span<const float> values, std::byte* to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Bf16 rounded = to_bf16(values[i]);
    std::memcpy(to + i * sizeof(Bf16), &rounded, sizeof(Bf16));
  }
}

}  // namespace trireme
