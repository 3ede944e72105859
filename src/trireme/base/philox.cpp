#include "trireme/base/philox.h"

#include <cmath>
#include <numbers>

namespace trireme {

std::uint64_t philox_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  const PhiloxBlock mixed = philox(seed, philox_counter(hash, 0));
  return (std::uint64_t{mixed[1]} << 32) | mixed[0];
}

float philox_normal(std::uint64_t key, std::uint64_t index) {
  const PhiloxBlock block = philox(key, philox_counter(index / 2, 0));
  constexpr double kScale = 0x1.0p-53;
  const auto to_unit = [](std::uint32_t high, std::uint32_t low) {
    return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * kScale;
  };
  const double radius = std::sqrt(-2.0 * std::log1p(-to_unit(block[0], block[1])));
  const double angle = 2.0 * std::numbers::pi * to_unit(block[2], block[3]);
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

}  // namespace trireme
