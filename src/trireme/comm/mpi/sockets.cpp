#include "trireme/comm/mpi/sockets.h"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

constexpr double kConnectSeconds = 5;

[[noreturn]] void throw_socket_error(const std::string& action) {
  throw ResourceError(
      fmt::format("[mpi] {}: {}; the processes of a run watch each other over TCP: allow it "
                  "between the machines",
                  action, std::strerror(errno)));
}

sockaddr_in address_of(std::uint32_t host_order_address, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(host_order_address);
  return address;
}

/// Waits for `events`; false after `seconds`.
bool wait_for(int descriptor, short events, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const auto left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    pollfd one{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&one, 1, left > 0 ? static_cast<int>(left * 1000) + 1 : 0);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) throw_socket_error("the network interfaces cannot be listed");
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, at->ifa_addr, sizeof(address));
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
    addresses.emplace_back(text);
  }
  ::freeifaddrs(all);
  return addresses;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int Socket::release() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return descriptor;
}

Listener listen_anywhere(bool is_loopback) {
  Listener listener{.socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                    .addresses = {}};
  const int descriptor = listener.socket.get();
  if (descriptor < 0) throw_socket_error("no socket");
  sockaddr_in address = address_of(is_loopback ? INADDR_LOOPBACK : INADDR_ANY, 0);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(descriptor, generic, length) != 0 || ::listen(descriptor, SOMAXCONN) != 0 ||
      ::getsockname(descriptor, generic, &length) != 0) {
    throw_socket_error("no port to listen on");
  }
  listener.port = ntohs(address.sin_port);
  listener.addresses = is_loopback ? std::vector<std::string>{"127.0.0.1"} : own_addresses();
  return listener;
}

Socket connect_to(const std::vector<std::string>& addresses, int port) {
  for (const std::string& text : addresses) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.get() < 0) throw_socket_error("no socket");
    sockaddr_in address = address_of(0, port);
    if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) continue;
    const int result =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    if (result != 0 && errno != EINPROGRESS) continue;
    int error = 0;
    socklen_t length = sizeof(error);
    if (wait_for(socket.get(), POLLOUT, kConnectSeconds) &&
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0) {
      return socket;
    }
    errno = error != 0 ? error : ETIMEDOUT;
  }
  throw_socket_error(
      fmt::format("no connection to rank 0 at {}, port {}", fmt::join(addresses, ", "), port));
}

Socket accept_within(const Socket& listener, double seconds) {
  if (!wait_for(listener.get(), POLLIN, seconds)) return {};
  return Socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool read_within(const Socket& socket, void* bytes, std::size_t num_bytes, double seconds) {
  auto* next = static_cast<std::byte*>(bytes);
  while (num_bytes > 0) {
    if (!wait_for(socket.get(), POLLIN, seconds)) return false;
    const ssize_t count = ::recv(socket.get(), next, num_bytes, 0);
    if (count <= 0) return false;
    next += count;
    num_bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace trireme
