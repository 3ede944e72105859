#include "trireme/base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

// "8 or 12"; only one of them if `below` is not positive or both are equal.
std::string either_of(std::int64_t below, std::int64_t above) {
  if (below < 1 || below == above) return fmt::format("{}", above);
  return fmt::format("{} or {}", below, above);
}

}  // namespace

std::int64_t edit_distance(std::string_view from, std::string_view to) {
  // distances[j]: from the prefix of `from` read so far to the first j characters of `to`.
  std::vector<std::int64_t> distances(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) distances[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::int64_t diagonal = distances[0];
    distances[0] = static_cast<std::int64_t>(i) + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::int64_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = distances[j + 1];
      distances[j + 1] = std::min({replaced, distances[j] + 1, diagonal + 1});
    }
  }
  return distances.back();
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  TRI_CHECK(!candidates.empty());
  return *std::min_element(candidates.begin(), candidates.end(),
                           [word](std::string_view a, std::string_view b) {
                             return edit_distance(word, a) < edit_distance(word, b);
                           });
}

std::string nearest_multiples(std::int64_t value, std::int64_t multiple, std::int64_t most) {
  if (multiple > most) return fmt::format("none up to {}", most);
  const std::int64_t highest = most / multiple * multiple;
  if (value > highest) return either_of(0, highest);
  return either_of(value / multiple * multiple, round_up(std::max(value, multiple), multiple));
}

std::string nearest_divisors(std::int64_t number, std::int64_t value) {
  TRI_CHECK(number >= 1);
  std::int64_t below = 1;
  std::int64_t above = number;
  for (std::int64_t small = 1; small * small <= number; ++small) {
    if (number % small != 0) continue;
    for (const std::int64_t divisor : {small, number / small}) {
      if (divisor <= value) below = std::max(below, divisor);
      if (divisor >= value) above = std::min(above, divisor);
    }
  }
  return either_of(std::min(below, above), above);
}

}  // namespace trireme
