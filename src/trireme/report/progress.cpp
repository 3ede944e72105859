#include "trireme/report/progress.h"

#include <cmath>

#include <fmt/format.h>

#include "trireme/base/units.h"

namespace trireme {
namespace {

/// Back to the first column, and erase to the end (ECMA-48, EL).
constexpr const char* kClearLine = "\r\x1B[K";

std::string rate_text(double rate) {
  constexpr double kMost = 1e15;
  return std::isfinite(rate) && std::abs(rate) < kMost ? format_count(std::llround(rate)) : "-";
}

}  // namespace

std::string progress_line(const Progress& progress) {
  // As wide as the last step, so that lines stand in columns.
  const std::string steps = fmt::format("{}", progress.steps);
  return fmt::format(
      "step {:>{}}/{}  loss {:.4f}  grad {:.3f}  lr {:.2e}  {} tok/s ({}/rank)  MFU {}  mem {}  "
      "ETA {}",
      progress.step, steps.size(), steps, progress.loss, progress.grad_norm, progress.lr,
      rate_text(progress.tokens_per_second), rate_text(progress.tokens_per_second_per_rank),
      progress.mfu ? fmt::format("{:.1f}%", 100.0 * *progress.mfu) : "-",
      format_bytes(progress.memory_bytes),
      std::isfinite(progress.eta_seconds) ? format_seconds(progress.eta_seconds) : "-");
}

std::string ProgressDisplay::update(const Progress& progress, bool is_logging_step) {
  std::string line = progress_line(progress);
  if (is_logging_step) {
    return message(line);
  }
  if (!is_terminal_) {
    return "";
  }
  // The last column stays free: some terminals wrap when it is written.
  if (columns_ > 0 && line.size() >= static_cast<std::size_t>(columns_)) {
    line.resize(static_cast<std::size_t>(columns_) - 1);
  }
  is_line_open_ = true;
  return kClearLine + line;
}

std::string ProgressDisplay::message(std::string_view line) {
  const bool must_clear = is_line_open_;
  is_line_open_ = false;
  return fmt::format("{}{}\n", must_clear ? kClearLine : "", line);
}

std::string ProgressDisplay::finish() {
  const bool must_end = is_line_open_;
  is_line_open_ = false;
  return must_end ? "\n" : "";
}

}  // namespace trireme
