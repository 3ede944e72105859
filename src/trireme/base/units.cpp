#include "trireme/base/units.h"

#include <cstddef>

#include <fmt/format.h>

namespace trireme {

std::string format_bytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024LL * 1024) return fmt::format("{:.1f} KiB", value / 1024.0);
  if (bytes < 1024LL * 1024 * 1024) return fmt::format("{:.1f} MiB", value / (1024.0 * 1024.0));
  return fmt::format("{:.3f} GiB", value / (1024.0 * 1024.0 * 1024.0));
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first_digit = count < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first_digit + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string format_seconds(double seconds) {
  if (seconds < 1.0) return fmt::format("{:.2f}ms", seconds * 1e3);
  if (seconds < 60.0) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace trireme
