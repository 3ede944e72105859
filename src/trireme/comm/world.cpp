#include "trireme/comm/world.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"

namespace trireme {

std::string text_of(const FirstCause& cause) {
  if (cause.step == 0) return fmt::format("rank {}: {}", cause.rank, cause.message);
  return fmt::format("rank {}, step {}: {}", cause.rank, cause.step, cause.message);
}

std::string message_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void check_members(std::span<const int> world_ranks, int world_rank, int world_size) {
  std::vector<int> sorted(world_ranks.begin(), world_ranks.end());
  std::sort(sorted.begin(), sorted.end());
  const bool is_distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  const bool is_in_world = !sorted.empty() && sorted.front() >= 0 && sorted.back() < world_size;
  if (is_distinct && is_in_world && std::binary_search(sorted.begin(), sorted.end(), world_rank)) {
    return;
  }
  throw UsageError(
      fmt::format("[comm] rank {} asks for a group of ranks {{{}}} in a world of {}; name distinct "
                  "ranks of the world, the asking one among them",
                  world_rank, fmt::join(world_ranks, ", "), world_size));
}

}  // namespace trireme
