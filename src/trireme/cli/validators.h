// Checks of command-line values that several commands make.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include <fmt/format.h>

namespace trireme {

/// Refuses an empty value; `what` says what it names.
[[nodiscard]] inline CLI::Validator non_empty(const std::string& what) {
  return {[what](const std::string& value) {
            return value.empty()
                       ? fmt::format("\"\": must name a {}; give one, or leave it out", what)
                       : std::string();
          },
          ""};
}

}  // namespace trireme
