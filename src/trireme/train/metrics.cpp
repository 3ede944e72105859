#include "trireme/train/metrics.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

/// Always looks like a float, so that -0.0 and 768.0 keep their type in a parser.
std::string json_number(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

[[noreturn]] void throw_write_error(const std::filesystem::path& path) {
  throw ResourceError(
      fmt::format("[metrics] {}: cannot write: {}; free space or choose another run.dir",
                  path.string(), std::strerror(errno)));
}

/// Hands `text` to the system at once.
void write_all(std::FILE* file, std::string_view text, const std::filesystem::path& path) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0) {
    throw_write_error(path);
  }
}

/// Step of one of our own lines; nothing for any other text, for example a cut line. Our lines hold
/// one flat object, so that a second "{" tells of a cut line that a later one continued.
std::optional<std::int64_t> step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"step\":";
  const std::size_t key_index = line.find(kKey);
  if (!line.starts_with("{\"kind\":") || !line.ends_with('}') || line.find('{', 1) != line.npos ||
      key_index == line.npos) {
    return std::nullopt;
  }
  const char* const begin = line.data() + key_index + kKey.size();
  std::int64_t step = 0;
  const auto parsed = std::from_chars(begin, line.data() + line.size(), step);
  return parsed.ec == std::errc{} ? std::optional(step) : std::nullopt;
}

/// The full lines of `path` up to `last_step`. A file that does not exist has none.
std::string lines_until(const std::filesystem::path& path, std::int64_t last_step) {
  std::ifstream file(path, std::ios::binary);
  std::string kept;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    const std::optional<std::int64_t> step = step_of(line);
    if (step && *step <= last_step) {
      kept += line + '\n';
    }
  }
  return kept;
}

}  // namespace

TokenRates token_rates(std::int64_t tokens, double seconds, int world) {
  const double rate = static_cast<double>(tokens) / seconds;
  return {.tokens_per_second = rate, .tokens_per_second_per_rank = rate / world};
}

std::string metrics_line(const StepMetrics& metrics) {
  return fmt::format(R"({{"kind":"train","step":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},)"
                     R"("valid_tokens":{},"step_seconds":{},"tokens_per_second":{},)"
                     R"("tokens_per_second_per_rank":{},"mfu":{},"memory_bytes":{},"skipped":{}}})",
                     metrics.step, json_number(metrics.loss), json_number(metrics.grad_norm),
                     json_number(metrics.lr), metrics.tokens, metrics.valid_tokens,
                     json_number(metrics.step_seconds), json_number(metrics.tokens_per_second),
                     json_number(metrics.tokens_per_second_per_rank),
                     metrics.mfu ? json_number(*metrics.mfu) : "null", metrics.memory_bytes,
                     metrics.skipped);
}

std::string metrics_line(const EvalMetrics& metrics) {
  return fmt::format(R"({{"kind":"eval","step":{},"loss":{},"tokens":{}}})", metrics.step,
                     json_number(metrics.loss), metrics.tokens);
}

MetricsWriter::MetricsWriter(std::filesystem::path path, std::int64_t resume_step)
    : path_(std::move(path)), file_(nullptr, &std::fclose) {
  std::error_code error;
  if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error)) {
    throw ResourceError(
        fmt::format("[metrics] {}: is no regular file; move it away or choose another run.name",
                    path_.string()));
  }
  const std::string kept = lines_until(path_, resume_step);
  // A new file replaces the old one at once: a crash here leaves one of them whole.
  const std::filesystem::path new_path = path_.string() + ".new";
  file_.reset(std::fopen(new_path.c_str(), "wb"));
  if (file_ == nullptr) {
    throw_write_error(new_path);
  }
  write_all(file_.get(), kept, new_path);
  if (::fsync(::fileno(file_.get())) != 0 || std::rename(new_path.c_str(), path_.c_str()) != 0) {
    throw_write_error(path_);
  }
}

void MetricsWriter::write_line(std::string line) {
  line += '\n';
  write_all(file_.get(), line, path_);
}

}  // namespace trireme
