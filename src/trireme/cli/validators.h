// Checks of command-line values that several commands make.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "trireme/base/numbers.h"

namespace trireme {

/// Why `value` is refused if it is empty, else ""; `what` says what it names.
[[nodiscard]] inline std::string refusal_of_empty(const std::string& value,
                                                  const std::string& what) {
  return value.empty() ? fmt::format("\"\": must name a {}; give one, or leave it out", what) : "";
}

/// Refuses an empty value.
[[nodiscard]] inline CLI::Validator non_empty(const std::string& what) {
  return {[what](const std::string& value) { return refusal_of_empty(value, what); }, ""};
}

/// Names a file, or a free name in a folder that exists: known before the work is done.
[[nodiscard]] inline CLI::Validator output_file() {
  return {[](const std::string& path) {
            if (path.empty()) return refusal_of_empty(path, "file");
            std::error_code error;
            const auto status = std::filesystem::status(path, error);
            if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
              return path + ": must name a file and is none; name another";
            const auto folder = std::filesystem::absolute(path, error).parent_path();
            if (!std::filesystem::is_directory(folder, error)) {
              return fmt::format("{}: {} is no folder; make it first, or name another", path,
                                 folder.string());
            }
            return std::string();
          },
          ""};
}

/// A whole number from `least` on.
[[nodiscard]] inline CLI::Validator whole_from(std::int64_t least) {
  return {[least](const std::string& text) {
            std::int64_t value = 0;
            return is_number(text, value) && value >= least
                       ? std::string()
                       : fmt::format("{}: must be a whole number of {} or more; correct it", text,
                                     least);
          },
          ""};
}

/// Above 0 (or 0 itself, where `takes_zero`) and at most `most`, which keeps what is computed from
/// it in range; not NaN.
[[nodiscard]] inline CLI::Validator number_up_to(double most, bool takes_zero = false) {
  return {[most, takes_zero](const std::string& text) {
            double value = 0;
            const bool is_low_enough = is_number(text, value) && value <= most;  // NaN is not
            if (is_low_enough && (takes_zero ? value >= 0 : value > 0)) return std::string();
            return fmt::format("{}: must be a number {} and at most {:g}; correct it", text,
                               takes_zero ? "of 0 or more" : "above 0", most);
          },
          ""};
}

}  // namespace trireme
