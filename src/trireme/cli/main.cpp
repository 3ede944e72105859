// The program: only here are the environment and the terminal looked at.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

#include "trireme/cli/cli.h"

namespace {

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// A file that is opened later must not get the number of a standard stream. Writing still fails.
void open_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && ::open("/dev/null", O_RDONLY) < 0) std::_Exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file limit is an error of the write, like a full disk
  trireme::Session session{.out = stdout,
                           .err = stderr,
                           .is_terminal = ::isatty(STDOUT_FILENO) == 1,
                           .columns = terminal_columns(),
                           .resets_affinity = std::getenv("OMP_PROC_BIND") != nullptr,
                           .environment = [](const char* name) { return std::getenv(name); }};
  return trireme::run_cli(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                          session);
}
