#include "trireme/execute/thread_ranks.h"

#include <utility>

#include "trireme/base/units.h"
#include "trireme/comm/run_ranks.h"

namespace trireme {

ThreadRanks::ThreadRanks(const std::vector<RankPrograms>& programs, RankOptions options)
    : programs_(programs), options_(std::move(options)), world_(narrow<int>(std::ssize(programs))) {
  launcher_ = std::thread([this] {
    std::exception_ptr failure;
    try {
      run_ranks(world_, [this](int rank) { rank_main(rank); });
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    has_ended_ = true;
    is_done_.notify_all();
  });
  try {
    run([](int, RankResources&) {});  // all of them exist
  } catch (...) {
    launcher_.join();
    throw;
  }
}

ThreadRanks::~ThreadRanks() {
  end_work();
  launcher_.join();
}

void ThreadRanks::run(const Work& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  ++num_works_;
  num_busy_ = world_.size();
  has_work_.notify_all();
  is_done_.wait(lock, [this] { return num_busy_ == 0 || has_ended_; });
  work_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

void ThreadRanks::rank_main(int rank) {
  try {
    RankResources resources(programs_[static_cast<std::size_t>(rank)], world_, rank, options_);
    // Past it every rank has a thread; before it, peers without one are noticed by the world.
    if (resources.host() != nullptr) resources.host()->barrier();
    serve(rank, resources);
  } catch (...) {
    // In this order: a rank that ends for want of work leaves, which would look like the cause.
    world_.abort(rank, std::current_exception());
    end_work();
    throw;
  }
}

void ThreadRanks::serve(int rank, RankResources& resources) {
  std::int64_t num_done = 0;
  while (const Work* const work = next_work(num_done)) {
    (*work)(rank, resources);
    ++num_done;
    const std::lock_guard lock(mutex_);
    if (--num_busy_ == 0) is_done_.notify_all();
  }
}

const ThreadRanks::Work* ThreadRanks::next_work(std::int64_t num_done) {
  std::unique_lock lock(mutex_);
  has_work_.wait(lock, [&] { return num_works_ > num_done || is_ending_; });
  return is_ending_ ? nullptr : work_;
}

void ThreadRanks::end_work() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  has_work_.notify_all();
}

}  // namespace trireme
