// The thread that makes all MPI calls of a process. Private to mpi/.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "trireme/comm/launch.h"

namespace trireme {

/// Messages that are under way together. Filled, posted and waited for by one thread.
class MpiBatch {
 public:
  enum class State : std::uint8_t { kFree, kPosted, kDone, kLost };

  /// Room for that many messages, so that using it allocates nothing.
  explicit MpiBatch(std::size_t max_messages);

  void clear() { messages_.clear(); }
  [[nodiscard]] bool is_empty() const { return messages_.empty(); }
  /// `peer` is a rank of the world. Empty messages are left out, on both sides.
  void add_send(int peer, int tag, std::span<const std::byte> bytes);
  void add_recv(int peer, int tag, std::span<std::byte> bytes);

  [[nodiscard]] State state() const { return state_.load(std::memory_order_acquire); }

 private:
  friend class MpiThread;
  struct Message {
    bool is_send = false;
    int peer = 0;
    int tag = 0;
    std::byte* bytes = nullptr;
    std::size_t num_bytes = 0;
  };
  std::vector<Message> messages_;
  std::vector<MPI_Request> requests_;  ///< the MPI thread's
  /// kDone orders what was received before the reads of the waiting thread.
  std::atomic<State> state_{State::kFree};
};

/// Where a thread waits for its batches. `news` changes with each that ends; 32 bits, so that
/// atomic::wait sleeps on the word itself.
struct MpiMailbox {
  std::atomic<std::uint32_t> news{0};
};

class MpiThread {
 public:
  /// Starts MPI, collectively. `on_error` is called in the thread, once it makes no more calls,
  /// with what MPI says. UsageError if MPI sees other processes than `launch` says.
  MpiThread(const Launch& launch, std::function<void(std::exception_ptr)> on_error);
  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;
  ~MpiThread() { end(); }

  /// Waits for all ranks and finalizes MPI, unless stopped. Nothing is posted any more.
  void end();

  /// Rank 0's text, on all ranks. Collective; before the first post.
  [[nodiscard]] std::string share(std::string text);

  /// Lives as long as this object.
  [[nodiscard]] MpiMailbox& add_mailbox();
  /// Starts the batch; its buffers stay as they are until its state has changed.
  void post(MpiBatch& batch, MpiMailbox& mailbox);
  /// Waits until the state of the batch, posted with this mailbox, is kDone or kLost.
  void wait(const MpiBatch& batch, const MpiMailbox& mailbox) const;
  /// Waits for other news than `seen_news`.
  void wait_for_news(const MpiMailbox& mailbox, std::uint32_t seen_news) const;

  /// Returns when no MPI call is under way and none will be made: nobody writes into the buffers of
  /// batches any more. All that were posted are lost, and all that will be. Waits two seconds at
  /// most: MPI's start and end cannot be interrupted.
  void stop();

 private:
  struct Active {
    MpiBatch* batch = nullptr;
    MpiMailbox* mailbox = nullptr;
  };
  void thread_main();
  void start_mpi();
  void serve();
  /// Waits a moment for new batches; `num_idle_rounds` since anything has moved.
  void take_posted(std::int64_t num_idle_rounds);
  void start(MpiBatch& batch);
  /// True if a batch has ended.
  bool progress();
  void end_all();
  static void finish(const Active& active, MpiBatch::State state);
  static void check(int code, const char* call);

  Launch launch_;
  int spin_count_;
  std::function<void(std::exception_ptr)> on_error_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<Active> active_;  ///< the thread's

  std::mutex mutex_;  ///< guards all below but the thread
  std::condition_variable has_work_, has_changed_;
  std::vector<Active> posted_;
  std::deque<MpiMailbox> mailboxes_;
  std::function<void()> call_;  ///< to make in the thread, as share() does
  bool has_started_ = false;
  bool is_ending_ = false;
  bool is_stopping_ = false;
  bool has_ended_ = false;  ///< the thread makes no more calls
  std::exception_ptr start_failure_;
  std::thread thread_;
};

}  // namespace trireme
