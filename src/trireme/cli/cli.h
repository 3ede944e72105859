// The command tree of the program `trireme`.
#pragma once

#include <string>
#include <vector>

#include "trireme/cli/session.h"

namespace trireme {

inline constexpr int kExitDone = 0, kExitFailure = 1, kExitUsage = 2, kExitSignalBase = 128;

/// Runs one command line (without the program's name) and returns the exit code: 0 done, 2 usage or
/// configuration, 1 failure, 130/143 stopped by a signal after the checkpoint was saved. Errors are
/// one line on session.err. Throws nothing.
[[nodiscard]] int run_cli(const std::vector<std::string>& arguments, Session& session);

}  // namespace trireme
