#include "trireme/comm/mpi/mpi_thread.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/comm/threads/gate.h"

namespace trireme {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Counts of MPI are ints.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;
// A waiting thread looks that often before it sleeps, if every thread has a core of its own.
constexpr int kSpinCount = 2000;
// With messages under way: rounds that only yield the core, then sleeps between looks.
constexpr int kNumYields = 50;
constexpr microseconds kSleep{50};
// Without any: MPI may still have bytes of a send that is complete for us.
constexpr milliseconds kIdleSleep{10};
constexpr milliseconds kStopPatience{2000};

int spin_count_for(const Launch& launch) {
  constexpr int kThreadsPerRank = 2;  // this one and the stream that waits for it
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return launch.local_size * kThreadsPerRank <= cores ? kSpinCount : 0;
}

}  // namespace

MpiBatch::MpiBatch(std::size_t max_messages) {
  messages_.reserve(max_messages);
  requests_.reserve(max_messages);
}

void MpiBatch::add_send(int peer, int tag, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  messages_.push_back({.is_send = true,
                       .peer = peer,
                       .tag = tag,
                       .bytes = const_cast<std::byte*>(bytes.data()),  // MPI only reads it
                       .num_bytes = bytes.size()});
}

void MpiBatch::add_recv(int peer, int tag, std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  messages_.push_back({.peer = peer, .tag = tag, .bytes = bytes.data(), .num_bytes = bytes.size()});
}

MpiThread::MpiThread(const Launch& launch, std::function<void(std::exception_ptr)> on_error)
    : launch_(launch), spin_count_(spin_count_for(launch)), on_error_(std::move(on_error)) {
  thread_ = std::thread([this] { thread_main(); });
  std::unique_lock lock(mutex_);
  has_changed_.wait(lock, [this] { return has_started_ || has_ended_; });
  if (!start_failure_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(start_failure_);
}

void MpiThread::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    has_work_.notify_all();
  }
  thread_.join();
}

std::string MpiThread::share(std::string text) {
  std::unique_lock lock(mutex_);
  call_ = [&text, this] {
    std::int64_t num_bytes = std::ssize(text);
    check(MPI_Bcast(&num_bytes, 1, MPI_INT64_T, 0, comm_), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(num_bytes));
    check(MPI_Bcast(text.data(), narrow<int>(num_bytes), MPI_BYTE, 0, comm_), "MPI_Bcast");
  };
  has_work_.notify_all();
  has_changed_.wait(lock, [this] { return !call_ || has_ended_; });
  return text;
}

MpiMailbox& MpiThread::add_mailbox() {
  const std::lock_guard lock(mutex_);
  return mailboxes_.emplace_back();
}

void MpiThread::post(MpiBatch& batch, MpiMailbox& mailbox) {
  const std::lock_guard lock(mutex_);
  batch.state_.store(MpiBatch::State::kPosted, std::memory_order_relaxed);
  if (is_stopping_ || has_ended_) return finish({&batch, &mailbox}, MpiBatch::State::kLost);
  posted_.push_back({&batch, &mailbox});
  has_work_.notify_all();
}

void MpiThread::wait(const MpiBatch& batch, const MpiMailbox& mailbox) const {
  for (;;) {
    const std::uint32_t seen_news = mailbox.news.load(std::memory_order_acquire);
    if (batch.state() != MpiBatch::State::kPosted) return;
    wait_for_news(mailbox, seen_news);
  }
}

void MpiThread::wait_for_news(const MpiMailbox& mailbox, std::uint32_t seen_news) const {
  for (int i = 0; i < spin_count_; ++i) {
    if (mailbox.news.load(std::memory_order_acquire) != seen_news) return;
    pause_cpu(i);
  }
  mailbox.news.wait(seen_news, std::memory_order_acquire);
}

void MpiThread::stop() {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  has_work_.notify_all();
  if (std::this_thread::get_id() == thread_.get_id()) return;
  has_changed_.wait_for(lock, kStopPatience, [this] { return has_ended_; });
}

// ---- In the thread ----

void MpiThread::thread_main() {
  std::exception_ptr failure;
  try {
    start_mpi();
    {
      const std::lock_guard lock(mutex_);
      has_started_ = true;
      has_changed_.notify_all();
    }
    serve();
    const bool is_stopped = [&] {
      const std::lock_guard lock(mutex_);
      return is_stopping_;
    }();
    if (!is_stopped) check(MPI_Finalize(), "MPI_Finalize");
  } catch (...) {
    failure = std::current_exception();
  }
  const bool has_started = [&] {
    const std::lock_guard lock(mutex_);
    if (!has_started_) start_failure_ = failure;
    return has_started_;
  }();
  end_all();
  if (failure && has_started) on_error_(failure);
}

void MpiThread::start_mpi() {
  int level = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  int size = 0;
  check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  if (rank == launch_.rank && size == launch_.size) return;
  MPI_Finalize();
  throw UsageError(fmt::format(
      "[launch] {} has started {} processes and calls this one {}, but MPI sees {} and calls it "
      "{}; "
      "start by the mpirun of the Open MPI that Trireme was built with, or by srun --mpi=pmix",
      launch_.launcher, launch_.size, launch_.rank, size, rank));
}

void MpiThread::serve() {
  std::int64_t num_idle_rounds = 0;
  for (;;) {
    take_posted(num_idle_rounds);
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
      if (is_ending_ && active_.empty()) return;
      call = call_;
    }
    if (call) {
      call();
      const std::lock_guard lock(mutex_);
      call_ = nullptr;
      has_changed_.notify_all();
    }
    num_idle_rounds = progress() ? 0 : num_idle_rounds + 1;
  }
}

void MpiThread::take_posted(std::int64_t num_idle_rounds) {
  std::size_t num_old = active_.size();
  {
    std::unique_lock lock(mutex_);
    const auto has_news = [this] {
      return !posted_.empty() || call_ || is_ending_ || is_stopping_;
    };
    if (active_.empty()) {
      has_work_.wait_for(lock, kIdleSleep, has_news);
    } else if (num_idle_rounds > spin_count_ + kNumYields) {
      has_work_.wait_for(lock, kSleep, has_news);
    }
    active_.insert(active_.end(), posted_.begin(), posted_.end());
    posted_.clear();
  }
  if (num_idle_rounds > spin_count_) std::this_thread::yield();
  for (; num_old < active_.size(); ++num_old) start(*active_[num_old].batch);
}

void MpiThread::start(MpiBatch& batch) {
  batch.requests_.clear();
  for (const bool is_send : {false, true}) {  // who receives first spares MPI a copy
    for (const MpiBatch::Message& message : batch.messages_) {
      if (message.is_send != is_send) continue;
      for (std::size_t begin = 0; begin < message.num_bytes; begin += kMaxMessageBytes) {
        const int count = narrow<int>(
            static_cast<std::int64_t>(std::min(kMaxMessageBytes, message.num_bytes - begin)));
        MPI_Request& request = batch.requests_.emplace_back(MPI_REQUEST_NULL);
        is_send ? check(MPI_Isend(message.bytes + begin, count, MPI_BYTE, message.peer, message.tag,
                                  comm_, &request),
                        "MPI_Isend")
                : check(MPI_Irecv(message.bytes + begin, count, MPI_BYTE, message.peer, message.tag,
                                  comm_, &request),
                        "MPI_Irecv");
      }
    }
  }
}

bool MpiThread::progress() {
  if (active_.empty()) {  // for bytes that MPI still holds
    int is_any = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &is_any, MPI_STATUS_IGNORE), "MPI_Iprobe");
    return false;
  }
  const auto is_over = [](const Active& active) {
    int is_done = 0;
    std::vector<MPI_Request>& requests = active.batch->requests_;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (is_done != 0) finish(active, MpiBatch::State::kDone);
    return is_done != 0;
  };
  return std::erase_if(active_, is_over) > 0;
}

void MpiThread::end_all() {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  for (const auto* const batches : {&active_, &posted_}) {
    for (const Active& active : *batches) finish(active, MpiBatch::State::kLost);
  }
  active_.clear();
  posted_.clear();
  call_ = nullptr;
  has_changed_.notify_all();
}

// The batch may be gone as soon as its thread has seen the state: it is not touched after that.
void MpiThread::finish(const Active& active, MpiBatch::State state) {
  active.batch->state_.store(state, std::memory_order_release);
  active.mailbox->news.fetch_add(1, std::memory_order_acq_rel);
  active.mailbox->news.notify_all();
}

void MpiThread::check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw ResourceError(fmt::format(
      "[mpi] {}: {}; the network or the other process has failed: see the lines of MPI, and resume",
      call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

}  // namespace trireme
