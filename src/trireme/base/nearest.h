// The nearest valid value to a wrong one, for the remedy in an error message.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Least number of inserted, deleted or replaced characters that turn `from` into `to`
/// (Levenshtein 1966).
[[nodiscard]] std::int64_t edit_distance(std::string_view from, std::string_view to);

/// The candidate at the least edit distance from `word`, the first one of equals. The result views
/// the candidate's characters. InternalError if there are no candidates.
[[nodiscard]] std::string_view nearest_name(std::string_view word,
                                            std::span<const std::string_view> candidates);

/// The positive multiples of `multiple` around `value`: nearest_multiples(10, 4) is "8 or 12",
/// nearest_multiples(3, 4) is "4", nearest_multiples(8, 4) is "8". None above `most`: then "8", or
/// "none up to <most>" if there is none at all.
[[nodiscard]] std::string nearest_multiples(
    std::int64_t value, std::int64_t multiple,
    std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// The divisors of `number` around `value`: nearest_divisors(12, 5) is "4 or 6". Needs
/// number >= 1; takes the square root of `number` steps.
[[nodiscard]] std::string nearest_divisors(std::int64_t number, std::int64_t value);

}  // namespace trireme
