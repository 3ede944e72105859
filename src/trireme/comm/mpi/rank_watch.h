// Notices that a process of the run has died or hangs, which MPI does not. Private to mpi/.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/launch.h"
#include "trireme/comm/world.h"

namespace trireme {

/// What happens when the run is lost. All are called in the watch's thread, in this order, at most
/// once each.
struct RankWatchEvents {
  std::function<void(const FirstCause&)> report;   ///< on one rank alone
  std::function<void(const FirstCause&)> on_lost;  ///< on every rank
  std::function<void()> on_overdue;                ///< the object still lives five seconds later
};

/// Each process has a thread that holds a TCP connection with rank 0's and says on it, a few times
/// a second, that it lives and which step it is in. A connection that closes without a farewell is
/// a process that died; one that is silent for the timeout is a process that was stopped, or a
/// machine that hangs or lost its network. Rank 0 judges and tells all; when rank 0 is lost, each
/// rank notices it and rank 1 reports.
class RankWatch {
 public:
  /// Collective: `share` gives rank 0's text to all. ResourceError if a connection fails.
  RankWatch(Launch launch, const std::function<std::string(std::string)>& share,
            RankWatchEvents events);
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;
  /// Bids farewell.
  ~RankWatch();

  void set_timeout(double seconds) { timeout_seconds_.store(seconds); }
  void set_step(std::int64_t step) { step_.store(step); }
  [[nodiscard]] std::int64_t step() const { return step_.load(); }

  /// This rank has failed. Returns when the run is lost, by this or an earlier cause, or after five
  /// seconds. Not from the events.
  void fail(const FirstCause& cause);

 private:
  enum class Kind : std::uint32_t { kAlive = 1, kFailed, kLost, kFarewell };
  /// Both ends run the same program on machines of one kind.
  struct Frame {
    Kind kind{};
    std::int32_t rank = 0;
    std::int64_t step = 0;
    std::uint64_t text_bytes = 0;
  };
  struct Peer {
    int rank = 0;
    int socket = -1;
    std::int64_t step = 0;
    double silent_seconds = 0;
    bool has_left = false;
    std::string received = {};
  };

  void connect_all(const std::function<std::string(std::string)>& share);
  void accept_peers(int listener, std::uint64_t cookie);
  void watch();
  void say_farewell();
  [[nodiscard]] bool is_ending();
  [[nodiscard]] bool is_lost();
  void poll_peers();
  void receive(Peer& peer);
  void handle(Peer& peer, const Frame& frame, const std::string& text);
  void count_silence(double seconds);
  void report_own_failure();
  void lose_peer(Peer& peer, const std::string& message);
  void lose(const FirstCause& cause, bool is_reporter);
  void send_all(Kind kind, const FirstCause& about);
  static void send(const Peer& peer, Kind kind, const FirstCause& about);

  Launch launch_;
  RankWatchEvents events_;
  std::vector<Peer> peers_;  ///< on rank 0 all others, else rank 0; the thread's
  int wake_event_ = -1;
  std::atomic<double> timeout_seconds_{60.0};
  std::atomic<std::int64_t> step_{0};

  std::mutex mutex_;  ///< guards all below but the thread
  std::condition_variable is_lost_;
  std::optional<FirstCause> own_failure_;
  std::optional<FirstCause> lost_;
  bool is_told_ = false;  ///< of the loss, by on_lost
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace trireme
