// The lines of a run: on the terminal and in log.txt. Private to the layer.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "trireme/cli/session.h"
#include "trireme/report/progress.h"

namespace trireme {

/// Prints to the session; from open() on (and what was printed before) to log.txt as well, in plain
/// text and without the lines that a terminal rewrites.
class RunLog {
 public:
  explicit RunLog(const Session& session)
      : session_(session), display_(session.is_terminal, session.columns) {}
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  ~RunLog() { finish(); }

  /// Makes the folder and appends to its log.txt. ResourceError if that fails.
  void open(const std::filesystem::path& folder);
  /// Whole lines.
  void print(std::string_view lines);
  void progress(const Progress& progress, bool is_logging_step);
  /// To log.txt alone: what ends the run is printed by whoever catches it.
  void log_failure(std::string_view message) { log(fmt::format("failed: {}\n", message)); }
  /// Ends a line that the terminal still rewrites.
  void finish();

 private:
  void log(std::string_view lines);

  const Session& session_;
  ProgressDisplay display_;
  std::string before_open_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

/// Replaces a text file in one step. ResourceError naming the path if it cannot be written.
void replace_file(const std::filesystem::path& path, std::string_view text);

}  // namespace trireme
