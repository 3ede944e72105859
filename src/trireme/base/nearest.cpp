#include "trireme/base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "trireme/base/errors.h"

namespace trireme {

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

}  // namespace trireme
