// Counter-based random numbers: a value is a pure function of (key, counter), so that weights,
// masks and data order come out the same under every layout.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

/// 128 random bits.
using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as
/// 1, 2, 3", table 2 for the constants). Inline: dropout kernels call it once per four elements.
[[nodiscard]] constexpr PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// Splits a 128-bit counter into two 64-bit halves, low half first.
[[nodiscard]] constexpr PhiloxBlock philox_counter(std::uint64_t low, std::uint64_t high) {
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}

/// Uniform in [0, 1) with 24 bits.
[[nodiscard]] constexpr float uniform_from_bits(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1.0p-24F;
}

/// Key of a named stream of random numbers: FNV-1a of `name` mixed with `seed`.
[[nodiscard]] std::uint64_t philox_key(std::uint64_t seed, std::string_view name);

/// Standard normal number `index` of the stream `key` (Box-Muller on the block index / 2).
[[nodiscard]] float philox_normal(std::uint64_t key, std::uint64_t index);

}  // namespace trireme
