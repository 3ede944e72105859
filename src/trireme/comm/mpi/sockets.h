// TCP between the processes of a run. Private to mpi/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

/// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] int release();

 private:
  int descriptor_ = -1;
};

/// Where to connect to.
struct Listener {
  Socket socket;
  int port = 0;
  std::vector<std::string> addresses;  ///< of this machine: IPv4, numeric
};

/// Listens on a free port: of the loopback alone, or of all interfaces. ResourceError if that
/// fails.
[[nodiscard]] Listener listen_anywhere(bool is_loopback);

/// Connects to the first of the addresses that answers within a few seconds; the socket does not
/// block. ResourceError if none does.
[[nodiscard]] Socket connect_to(const std::vector<std::string>& addresses, int port);

/// The next connection, or no descriptor after `seconds`; it does not block.
[[nodiscard]] Socket accept_within(const Socket& listener, double seconds);

/// Reads exactly that many bytes; false if they do not come within `seconds`.
[[nodiscard]] bool read_within(const Socket& socket, void* bytes, std::size_t num_bytes,
                               double seconds);

}  // namespace trireme
