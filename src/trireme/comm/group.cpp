#include "trireme/comm/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme {

std::string Group::description() const {
  return fmt::format("group '{}' of ranks {{{}}}", purpose_, fmt::join(world_ranks_, ", "));
}

std::string Group::member_name(int member) const {
  return fmt::format("rank {} (world rank {})", member,
                     world_ranks_.at(static_cast<std::size_t>(member)));
}

}  // namespace trireme
