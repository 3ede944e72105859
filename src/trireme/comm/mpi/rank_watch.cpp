#include "trireme/comm/mpi/rank_watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <random>
#include <sstream>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/comm/mpi/sockets.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTickMilliseconds = 100;
constexpr double kAliveSeconds = 0.25;  // between signs of life
constexpr std::chrono::seconds kAcceptPatience{60};
constexpr std::chrono::seconds kPatience{5};
// A watch that did not run itself, because its process was stopped, cannot blame the others.
constexpr double kMostCountedSeconds = 1;
constexpr std::size_t kMaxTextBytes = 4096;
// Who does not report lets the line of the one who does go first: mpirun has lines of its own for
// the first process that ends, and wakes a stopped rank 0, which must not be heard again.
constexpr std::chrono::milliseconds kDeference{500};

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

/// Sent by who connects: only processes of this run know the number.
struct Greeting {
  std::uint64_t cookie = 0;
  std::int64_t rank = 0;
};

}  // namespace

RankWatch::RankWatch(Launch launch, const std::function<std::string(std::string)>& share,
                     RankWatchEvents events)
    : launch_(std::move(launch)), events_(std::move(events)) {
  wake_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  connect_all(share);
  thread_ = std::thread([this] { watch(); });
}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ::eventfd_write(wake_event_, 1);
  thread_.join();
  for (const Peer& peer : peers_) ::close(peer.socket);
  ::close(wake_event_);
}

void RankWatch::fail(const FirstCause& cause) {
  std::unique_lock lock(mutex_);
  if (!own_failure_) own_failure_ = cause;
  ::eventfd_write(wake_event_, 1);
  is_lost_.wait_for(lock, kPatience, [this] { return is_told_; });
}

// ---- Connections ----

void RankWatch::connect_all(const std::function<std::string(std::string)>& share) {
  if (launch_.rank == 0) {
    const Listener listener = listen_anywhere(launch_.local_size == launch_.size);
    std::random_device random;
    const std::uint64_t cookie = (std::uint64_t{random()} << 32) | random();
    static_cast<void>(
        share(fmt::format("{} {} {}", cookie, listener.port, fmt::join(listener.addresses, " "))));
    return accept_peers(listener.socket.get(), cookie);
  }
  std::istringstream words(share({}));
  Greeting greeting{.rank = launch_.rank};
  int port = 0;
  words >> greeting.cookie >> port;
  std::vector<std::string> addresses;
  for (std::string address; words >> address;) addresses.push_back(address);
  Socket socket = connect_to(addresses, port);
  // A fresh connection has room for a few bytes.
  if (::send(socket.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting)) {
    throw ResourceError("[mpi] rank 0 has closed the connection of the watch; start the run again");
  }
  peers_.push_back({.rank = 0, .socket = socket.release()});
}

void RankWatch::accept_peers(int listener, std::uint64_t cookie) {
  const auto num_peers = static_cast<std::size_t>(launch_.size) - 1;
  const auto end = Clock::now() + kAcceptPatience;
  Socket borrowed(listener);
  while (peers_.size() < num_peers) {
    const double left = seconds_between(Clock::now(), end);
    Socket socket = left > 0 ? accept_within(borrowed, left) : Socket();
    if (socket.get() < 0) {
      static_cast<void>(borrowed.release());
      throw ResourceError(fmt::format(
          "[mpi] {} of {} processes did not connect to rank 0 within {} s; allow TCP between the "
          "machines of the run",
          num_peers - peers_.size(), num_peers, kAcceptPatience.count()));
    }
    Greeting greeting;
    if (!read_within(socket, &greeting, sizeof(greeting), 1) || greeting.cookie != cookie) continue;
    peers_.push_back({.rank = static_cast<int>(greeting.rank), .socket = socket.release()});
  }
  static_cast<void>(borrowed.release());
}

// ---- In the thread ----

void RankWatch::watch() {
  auto last_tick = Clock::now();
  auto last_alive = last_tick;
  std::optional<Clock::time_point> lost_at;
  while (!is_ending()) {
    poll_peers();
    const auto now = Clock::now();
    report_own_failure();
    count_silence(std::min(seconds_between(last_tick, now), kMostCountedSeconds));
    last_tick = now;
    if (seconds_between(last_alive, now) >= kAliveSeconds) {
      send_all(Kind::kAlive, {.rank = launch_.rank, .step = step_.load()});
      last_alive = now;
    }
    if (!is_lost()) continue;
    if (!lost_at) lost_at = now;
    if (now - *lost_at >= kPatience) events_.on_overdue();
  }
  say_farewell();
}

/// Until the others have said it too: a connection that closes with bytes unread takes those under
/// way with it.
void RankWatch::say_farewell() {
  send_all(Kind::kFarewell, {.rank = launch_.rank});
  const auto end = Clock::now() + kPatience;
  const auto has_left = [](const Peer& peer) { return peer.has_left; };
  while (!is_lost() && Clock::now() < end && !std::all_of(peers_.begin(), peers_.end(), has_left)) {
    poll_peers();
  }
}

bool RankWatch::is_ending() {
  const std::lock_guard lock(mutex_);
  return is_ending_;
}

bool RankWatch::is_lost() {
  const std::lock_guard lock(mutex_);
  return lost_.has_value();
}

void RankWatch::poll_peers() {
  std::vector<pollfd> descriptors = {{.fd = wake_event_, .events = POLLIN, .revents = 0}};
  for (const Peer& peer : peers_) {
    descriptors.push_back({.fd = peer.has_left ? -1 : peer.socket, .events = POLLIN, .revents = 0});
  }
  if (::poll(descriptors.data(), descriptors.size(), kTickMilliseconds) <= 0) return;
  if (descriptors.front().revents != 0) {
    eventfd_t count = 0;
    ::eventfd_read(wake_event_, &count);
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (descriptors[i + 1].revents != 0) receive(peers_[i]);
  }
}

void RankWatch::receive(Peer& peer) {
  char bytes[4096];
  const ssize_t count = ::recv(peer.socket, bytes, sizeof(bytes), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    return lose_peer(peer,
                     "its process has ended: killed (perhaps for memory), or crashed; see the "
                     "lines of the launcher and of the system, then start again: the run continues "
                     "from its last checkpoint");
  }
  peer.silent_seconds = 0;
  peer.received.append(bytes, static_cast<std::size_t>(count));
  for (;;) {
    Frame frame;
    if (peer.received.size() < sizeof(frame)) return;
    std::memcpy(&frame, peer.received.data(), sizeof(frame));
    const std::size_t text_bytes = std::min<std::size_t>(frame.text_bytes, kMaxTextBytes);
    if (peer.received.size() < sizeof(frame) + text_bytes) return;
    const std::string text = peer.received.substr(sizeof(frame), text_bytes);
    peer.received.erase(0, sizeof(frame) + text_bytes);
    handle(peer, frame, text);
  }
}

void RankWatch::handle(Peer& peer, const Frame& frame, const std::string& text) {
  switch (frame.kind) {
    case Kind::kAlive:
      peer.step = frame.step;
      return;
    case Kind::kFarewell:
      peer.has_left = true;
      return;
    case Kind::kFailed:
      return lose({.rank = frame.rank, .step = frame.step, .message = text}, true);
    case Kind::kLost:
      return lose({.rank = frame.rank, .step = frame.step, .message = text}, false);
  }
}

void RankWatch::count_silence(double seconds) {
  const double timeout = timeout_seconds_.load();
  for (Peer& peer : peers_) {
    if (peer.has_left) continue;
    peer.silent_seconds += seconds;
    if (peer.silent_seconds < timeout) continue;
    lose_peer(peer, fmt::format("its process has been silent for {} s (layout.timeout_s): stopped, "
                                "or its machine or network hangs; look there, then start again: "
                                "the run continues from its last checkpoint",
                                timeout));
  }
}

void RankWatch::report_own_failure() {
  std::optional<FirstCause> failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(own_failure_, std::nullopt);
  }
  if (!failure || is_lost()) return;
  if (launch_.rank == 0) return lose(*failure, true);
  send_all(Kind::kFailed, *failure);
}

/// Of two ranks that wait for each other neither can be ahead of the other's step by more than one.
void RankWatch::lose_peer(Peer& peer, const std::string& message) {
  peer.has_left = true;
  const FirstCause cause{
      .rank = peer.rank, .step = std::max(peer.step, step_.load()), .message = message};
  lose(cause, launch_.rank == 0 || launch_.rank == 1);
}

void RankWatch::lose(const FirstCause& cause, bool is_reporter) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    lost_ = cause;
  }
  if (is_reporter) {
    events_.report(cause);
  } else {
    std::this_thread::sleep_for(kDeference);
  }
  if (launch_.rank == 0) send_all(Kind::kLost, cause);
  events_.on_lost(cause);
  const std::lock_guard lock(mutex_);
  is_told_ = true;
  is_lost_.notify_all();
}

void RankWatch::send_all(Kind kind, const FirstCause& about) {
  for (const Peer& peer : peers_) send(peer, kind, about);
}

// A peer that does not read has a full connection, and is silent itself: nothing waits for it.
void RankWatch::send(const Peer& peer, Kind kind, const FirstCause& about) {
  const std::string text = about.message.substr(0, kMaxTextBytes);
  const Frame frame{
      .kind = kind, .rank = about.rank, .step = about.step, .text_bytes = text.size()};
  std::string bytes(sizeof(frame), '\0');
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  bytes += text;
  static_cast<void>(::send(peer.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace trireme
