#include "trireme/comm/threads/thread_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/units.h"

namespace trireme {

ThreadGroup::ThreadGroup(std::vector<int> world_ranks, std::string_view purpose)
    : entry(narrow<int>(world_ranks.size())),
      exit(narrow<int>(world_ranks.size())),
      posted(world_ranks.size()),
      has_handle(world_ranks.size(), false),
      world_ranks_(std::move(world_ranks)),
      purpose_(purpose),
      channels_(world_ranks_.size() * world_ranks_.size()) {}

Channel& ThreadGroup::channel(int source, int destination) {
  return channels_[static_cast<std::size_t>(source * size() + destination)];
}

std::string ThreadGroup::description() const {
  return fmt::format("group '{}' of ranks {{{}}}", purpose_, fmt::join(world_ranks_, ", "));
}

std::string ThreadGroup::member_name(int member) const {
  return fmt::format("rank {} (world rank {})", member,
                     world_ranks_[static_cast<std::size_t>(member)]);
}

std::optional<int> ThreadGroup::departed_member() const {
  const int member = departed_.load(std::memory_order_acquire);
  return member >= 0 ? std::optional<int>(member) : std::nullopt;
}

void ThreadGroup::close() {
  entry.close();
  for (Channel& channel : channels_) channel.met.close();
}

void ThreadGroup::close_for(int member) {
  int none = -1;
  departed_.compare_exchange_strong(none, member, std::memory_order_acq_rel);
  entry.close();
  for (int peer = 0; peer < size(); ++peer) {
    channel(member, peer).met.close();
    channel(peer, member).met.close();
  }
}

}  // namespace trireme
