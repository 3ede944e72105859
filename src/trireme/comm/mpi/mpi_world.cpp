#include "trireme/comm/mpi_world.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/comm/mpi/mpi_communicator.h"
#include "trireme/comm/mpi/mpi_thread.h"
#include "trireme/comm/mpi/rank_watch.h"

namespace trireme {
namespace {

// A process that dies breaks MPI's connections too: so long the watch may take to say which.
constexpr std::chrono::milliseconds kWatchPatience{2000};
// Before the first step all ranks tend to fail for one reason: rank 0 is to tell it.
constexpr std::chrono::milliseconds kRank0Patience{500};

}  // namespace

struct MpiWorld::State {
  State(Launch the_launch, MpiWorldOptions the_options)
      : launch(std::move(the_launch)),
        options(std::move(the_options)),
        thread(launch, [this](const std::exception_ptr& error) { handle_mpi_error(error); }),
        watch(launch, [this](std::string text) { return thread.share(std::move(text)); },
              {.report = options.report,
               .on_lost = [this](const FirstCause& cause) { lose(cause); },
               .on_overdue = options.end_process}),
        host{.thread = thread,
             .abort = [this](const std::exception_ptr& cause) { abort(cause); },
             .loss = [this] { return loss_text(); }} {}

  void abort(const std::exception_ptr& cause);
  void lose(FirstCause cause);
  void handle_mpi_error(const std::exception_ptr& error);
  [[nodiscard]] bool learns_cause_within(std::chrono::milliseconds patience);
  [[nodiscard]] std::string loss_text();

  Launch launch;
  MpiWorldOptions options;
  mutable std::mutex mutex;  ///< guards the next four
  std::condition_variable has_cause;
  std::optional<FirstCause> first_cause;
  std::exception_ptr own_failure;
  std::vector<Group> groups;  ///< with a handle
  MpiThread thread;
  RankWatch watch;
  MpiCommunicator::Host host;
};

/// Its own failure, unless the run is lost already.
void MpiWorld::State::abort(const std::exception_ptr& cause) {
  if (launch.rank != 0 && watch.step() == 0 && learns_cause_within(kRank0Patience)) return;
  {
    const std::lock_guard lock(mutex);
    if (first_cause || own_failure) return;
    own_failure = cause;
  }
  const FirstCause own{.rank = launch.rank,
                       .step = watch.step(),
                       .message = trireme::message_of(cause),
                       .exception = cause};
  watch.fail(own);
  {
    const std::lock_guard lock(mutex);
    if (first_cause) return;
  }
  options.report(own);  // rank 0 does not answer
  lose(own);
}

void MpiWorld::State::lose(FirstCause cause) {
  {
    const std::lock_guard lock(mutex);
    if (first_cause) return;
    const bool is_own = cause.rank == launch.rank && own_failure;
    cause.exception = is_own ? own_failure : std::make_exception_ptr(PeerLost(text_of(cause)));
    first_cause = std::move(cause);
    has_cause.notify_all();
  }
  thread.stop();
}

bool MpiWorld::State::learns_cause_within(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex);
  return has_cause.wait_for(lock, patience, [this] { return first_cause.has_value(); });
}

void MpiWorld::State::handle_mpi_error(const std::exception_ptr& error) {
  if (!learns_cause_within(kWatchPatience)) abort(error);
}

std::string MpiWorld::State::loss_text() {
  static_cast<void>(learns_cause_within(kWatchPatience));
  const std::lock_guard lock(mutex);
  if (!first_cause) return "MPI makes no more calls";
  return fmt::format("world rank {} failed first, with: {}", first_cause->rank,
                     first_cause->message);
}

MpiWorld::MpiWorld(Launch launch, MpiWorldOptions options)
    : launch_(std::move(launch)), state_(std::make_unique<State>(launch_, std::move(options))) {}

MpiWorld::~MpiWorld() {
  if (!first_cause()) wait_for_all();
  state_->thread.end();  // while the watch still sees who dies
}

void MpiWorld::wait_for_all() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  try {
    communicator(rank(), ranks, "end")->barrier();  // asleep, which MPI_Finalize is not
  } catch (const Error&) {
    // The run was lost at its very end; whoever reads the cause has read it.
  }
}

bool MpiWorld::is_built() {
  return true;
}

void MpiWorld::set_timeout(double seconds) {
  state_->watch.set_timeout(seconds);
}

std::unique_ptr<Communicator> MpiWorld::communicator(int world_rank,
                                                     std::span<const int> world_ranks,
                                                     std::string_view purpose) {
  TRI_CHECK(world_rank == rank());
  check_members(world_ranks, world_rank, size());
  Group group({world_ranks.begin(), world_ranks.end()}, purpose);
  const std::lock_guard lock(state_->mutex);
  if (state_->first_cause) {
    throw PeerLost(fmt::format("[comm] no communicator '{}' for rank {}: {}", purpose, world_rank,
                               text_of(*state_->first_cause)));
  }
  for (const Group& other : state_->groups) {
    if (group_number(other) != group_number(group)) continue;
    throw UsageError(
        fmt::format("[comm] rank {} asks for {} and has a communicator of {}, which has the same "
                    "number; a communicator belongs to one stream, so choose another purpose",
                    world_rank, group.description(), other.description()));
  }
  state_->groups.push_back(group);
  const auto member = std::find(world_ranks.begin(), world_ranks.end(), world_rank);
  return std::make_unique<MpiCommunicator>(state_->host, std::move(group),
                                           static_cast<int>(member - world_ranks.begin()),
                                           kStagingBytes);
}

void MpiWorld::abort(int world_rank, std::exception_ptr cause) {
  TRI_CHECK(world_rank == rank());
  state_->abort(cause);
}

void MpiWorld::begin_step(int world_rank, std::int64_t step) {
  TRI_CHECK(world_rank == rank());
  state_->watch.set_step(step);
}

std::optional<FirstCause> MpiWorld::first_cause() const {
  const std::lock_guard lock(state_->mutex);
  return state_->first_cause;
}

}  // namespace trireme
