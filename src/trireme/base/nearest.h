// The nearest valid name to a misspelt one, for the remedy in an error message.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trireme {

/// Least number of inserted, deleted or replaced characters that turn `from` into `to`
/// (Levenshtein 1966).
[[nodiscard]] std::int64_t edit_distance(std::string_view from, std::string_view to);

/// The candidate at the least edit distance from `word`, the first one of equals. The result views
/// the candidate's characters. InternalError if there are no candidates.
[[nodiscard]] std::string_view nearest_name(std::string_view word,
                                            std::span<const std::string_view> candidates);

}  // namespace trireme
