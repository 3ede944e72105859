#include "trireme/cli/run_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/file.h"

namespace trireme {

void RunLog::open(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path path = folder / "log.txt";
  const bool is_other = std::filesystem::exists(path, error) &&
                        !std::filesystem::is_regular_file(path, error);  // a pipe would block
  if (!is_other) file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) {
    const std::string cause = is_other ? "is no regular file" : std::strerror(errno);
    throw ResourceError(fmt::format(
        "[run] {}: {}; the run's folder must be writable; choose another run.dir or run.name",
        path.string(), cause));
  }
  log(std::exchange(before_open_, {}));
}

void RunLog::log(std::string_view lines) {
  if (!file_) {
    before_open_ += lines;
    return;
  }
  // A full disk ends the run where it matters, at the metrics and checkpoints.
  std::fwrite(lines.data(), 1, lines.size(), file_.get());
  std::fflush(file_.get());
}

void RunLog::print(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    session_.print(display_.message(lines.substr(0, end)));
    log(fmt::format("{}\n", lines.substr(0, end)));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void RunLog::progress(const Progress& progress, bool is_logging_step) {
  session_.print(display_.update(progress, is_logging_step));
  if (is_logging_step) log(progress_line(progress) + "\n");
}

void RunLog::finish() {
  session_.print(display_.finish());
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  const bool is_other =
      std::filesystem::exists(target, error) && !std::filesystem::is_regular_file(target, error);
  if (target.empty() || is_other) {
    throw ResourceError(fmt::format("[run] \"{}\" is {}: must be the name of a file; name another",
                                    path.string(), target.empty() ? "no path" : "no file"));
  }
  std::filesystem::path part = target;
  part += ".part";
  std::filesystem::remove(part, error);
  write_text(part, text, kPlainFile);
  std::filesystem::rename(part, target, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw ResourceError(fmt::format("[run] {}: {}; the folder must be writable; free the name",
                                    path.string(), error.message()));
  }
}

}  // namespace trireme
