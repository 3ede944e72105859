#include "trireme/comm/threads/thread_world.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/comm/threads/gate.h"
#include "trireme/comm/threads/thread_communicator.h"
#include "trireme/comm/threads/thread_group.h"

namespace trireme {

struct ThreadWorld::State {
  int size = 0;
  ThreadWorldOptions options = {};
  mutable std::mutex mutex;  ///< Guards everything below, and the groups' has_handle.
  std::vector<std::unique_ptr<ThreadGroup>> groups;
  std::vector<bool> has_left;
  std::vector<std::int64_t> steps;  ///< begun last, by rank
  std::optional<FirstCause> first_cause;

  ThreadGroup& find_or_add_group(std::span<const int> world_ranks, std::string_view purpose);
};

ThreadGroup& ThreadWorld::State::find_or_add_group(std::span<const int> world_ranks,
                                                   std::string_view purpose) {
  for (const auto& group : groups) {
    const std::vector<int>& known = group->world_ranks();
    if (group->purpose() != purpose || known.size() != world_ranks.size()) continue;
    if (std::equal(known.begin(), known.end(), world_ranks.begin())) return *group;
    if (std::is_permutation(known.begin(), known.end(), world_ranks.begin())) {
      throw UsageError(
          fmt::format("[comm] ranks {{{}}} are asked for after {} was made; a group's order gives "
                      "its ranks, so all members name the same order",
                      fmt::join(world_ranks, ", "), group->description()));
    }
  }
  groups.push_back(std::make_unique<ThreadGroup>(
      std::vector<int>(world_ranks.begin(), world_ranks.end()), purpose));
  ThreadGroup& group = *groups.back();
  for (int member = 0; member < group.size(); ++member) {
    const int world_rank = world_ranks[static_cast<std::size_t>(member)];
    if (has_left[static_cast<std::size_t>(world_rank)]) group.close_for(member);
  }
  return group;
}

ThreadWorld::ThreadWorld(int size, ThreadWorldOptions options) : state_(new State) {
  if (size < 1 || size > Gate::kMaxMembers || options.spin_count < 0 ||
      !(options.link.latency_seconds >= 0) || !(options.link.bytes_per_second >= 0)) {
    throw UsageError(fmt::format(
        "[comm] a world of {} ranks, spin_count {}, latency {} s, {} bytes/s; need 1 to {} ranks "
        "and no negative option",
        size, options.spin_count, options.link.latency_seconds, options.link.bytes_per_second,
        Gate::kMaxMembers));
  }
  state_->size = size;
  state_->options = options;
  state_->has_left.resize(static_cast<std::size_t>(size), false);
  state_->steps.resize(static_cast<std::size_t>(size), 0);
}

ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::size() const {
  return state_->size;
}

std::unique_ptr<Communicator> ThreadWorld::communicator(int world_rank,
                                                        std::span<const int> world_ranks,
                                                        std::string_view purpose) {
  check_members(world_ranks, world_rank, state_->size);
  const std::lock_guard lock(state_->mutex);
  if (state_->first_cause.has_value()) {
    throw PeerLost(
        fmt::format("[comm] no communicator '{}' for rank {}: rank {} failed first, "
                    "with: {}",
                    purpose, world_rank, state_->first_cause->rank, state_->first_cause->message));
  }
  ThreadGroup& group = state_->find_or_add_group(world_ranks, purpose);
  const auto member = std::find(world_ranks.begin(), world_ranks.end(), world_rank);
  const auto member_index = static_cast<std::size_t>(member - world_ranks.begin());
  if (group.has_handle[member_index]) {
    throw UsageError(
        fmt::format("[comm] rank {} asks twice for {}; a communicator belongs to one "
                    "stream, so choose another purpose for a second one",
                    world_rank, group.description()));
  }
  group.has_handle[member_index] = true;
  return std::make_unique<ThreadCommunicator>(*this, group, narrow<int>(member_index),
                                              state_->options);
}

void ThreadWorld::abort(int world_rank, std::exception_ptr cause) {
  std::string message = message_of(cause);
  const std::lock_guard lock(state_->mutex);
  if (state_->first_cause.has_value()) return;
  state_->first_cause = FirstCause{.rank = world_rank,
                                   .step = state_->steps.at(static_cast<std::size_t>(world_rank)),
                                   .message = std::move(message),
                                   .exception = std::move(cause)};
  for (const auto& group : state_->groups) group->close();
}

void ThreadWorld::abort(int world_rank, const std::string& message) {
  abort(world_rank, std::make_exception_ptr(ResourceError(message)));
}

void ThreadWorld::leave(int world_rank) {
  TRI_CHECK(world_rank >= 0 && world_rank < state_->size);
  const std::lock_guard lock(state_->mutex);
  state_->has_left[static_cast<std::size_t>(world_rank)] = true;
  for (const auto& group : state_->groups) {
    const std::vector<int>& ranks = group->world_ranks();
    const auto member = std::find(ranks.begin(), ranks.end(), world_rank);
    if (member != ranks.end()) group->close_for(narrow<int>(member - ranks.begin()));
  }
}

void ThreadWorld::begin_step(int world_rank, std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->steps.at(static_cast<std::size_t>(world_rank)) = step;
}

std::optional<FirstCause> ThreadWorld::first_cause() const {
  const std::lock_guard lock(state_->mutex);
  return state_->first_cause;
}

}  // namespace trireme
