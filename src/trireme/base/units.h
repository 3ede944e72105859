// Checked integer arithmetic and the units in which people read sizes.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "trireme/base/errors.h"

namespace trireme {

/// Converts between integer types; InternalError if the value does not fit.
template <typename To, typename From>
[[nodiscard]] constexpr To narrow(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  TRI_CHECK(std::in_range<To>(value));
  return static_cast<To>(value);
}

/// value / divisor; InternalError unless it divides without remainder.
[[nodiscard]] constexpr std::int64_t div_exact(std::int64_t value, std::int64_t divisor) {
  TRI_CHECK(divisor > 0 && value % divisor == 0);
  return value / divisor;
}

[[nodiscard]] constexpr std::int64_t div_ceil(std::int64_t value, std::int64_t divisor) {
  return value / divisor + (value % divisor > 0 ? 1 : 0);
}

/// The least multiple of `multiple` that is not below `value`.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return div_ceil(value, multiple) * multiple;
}

/// Bytes of a MiB and a GiB, for amounts that are no integers.
inline constexpr double kMib = 1024.0 * 1024.0;
inline constexpr double kGib = 1024.0 * kMib;

/// Human-readable bytes in powers of 1024: "512 B", "1.5 KiB", "3.2 MiB", "1.234 GiB".
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

/// Digits in groups of three: 1234567 -> "1,234,567".
[[nodiscard]] std::string format_count(std::int64_t count);

/// "1h02m", "3m05s", "12.3s", "4.56ms".
[[nodiscard]] std::string format_seconds(double seconds);

}  // namespace trireme
