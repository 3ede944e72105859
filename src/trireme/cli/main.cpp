// The program: only here are the environment and the terminal looked at.
#include <cstdio>
#include <cstdlib>
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

}  // namespace

int main(int argc, char** argv) {
  trireme::Session session{.out = stdout,
                           .err = stderr,
                           .is_terminal = ::isatty(STDOUT_FILENO) == 1,
                           .columns = terminal_columns(),
                           .resets_affinity = std::getenv("OMP_PROC_BIND") != nullptr};
  return trireme::run_cli(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                          session);
}
