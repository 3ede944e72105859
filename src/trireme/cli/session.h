// What a command may know of the process that runs it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "trireme/comm/launch.h"

namespace trireme {

/// Set up by main; commands print through it and leave their exit code.
struct Session {
  std::FILE* out = nullptr;
  std::FILE* err = nullptr;
  bool is_terminal = false;            ///< of `out`
  int columns = 0;                     ///< of that terminal; 0 = unknown
  bool resets_affinity = false;        ///< OMP_PROC_BIND is set: see run_on_any_core
  EnvironmentReader environment = {};  ///< empty: there is none
  Launch launch = {};                  ///< read by run_cli
  bool is_reported = false;            ///< what ended the command has been said already
  int exit_code = 0;

  /// One line on `err`.
  void note(std::string_view text) const {
    const std::string line = "trireme: note: " + std::string(text) + "\n";
    std::fwrite(line.data(), 1, line.size(), err);
  }
  void print(std::string_view text) const {
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
  }
};

}  // namespace trireme
