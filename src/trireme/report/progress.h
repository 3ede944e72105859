// The line that shows how a run is doing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct Progress {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0.0;
  double grad_norm = 0.0;
  double lr = 0.0;
  double tokens_per_second = 0.0;
  double tokens_per_second_per_rank = 0.0;
  std::optional<double> mfu = {};  ///< 0..1; shown as "-" if unknown
  std::int64_t memory_bytes = 0;   ///< of the fullest rank
  double eta_seconds = 0.0;        ///< until the last step
};

/// "step  20/100  loss 2.3456  grad 1.234  lr 3.00e-04  12,345 tok/s (3,086/rank)  MFU 12.3%
/// mem 1.2 GiB  ETA 3m05s", in one line without its line break.
[[nodiscard]] std::string progress_line(const Progress& progress);

/// Decides what to print. On a terminal each step rewrites one line, and a logging step leaves its
/// line standing; elsewhere only logging steps print. The caller writes the returned text as is.
class ProgressDisplay {
 public:
  /// `columns`: width of the terminal, which a rewritten line must not exceed; 0 = unlimited.
  explicit ProgressDisplay(bool is_terminal, int columns = 0)
      : is_terminal_(is_terminal), columns_(columns) {}

  [[nodiscard]] std::string update(const Progress& progress, bool is_logging_step);
  /// A line of its own between progress lines, for example "saved step_00000010".
  [[nodiscard]] std::string message(std::string_view line);
  /// Ends an open line: a run that stops must not leave the prompt behind it.
  [[nodiscard]] std::string finish();

 private:
  bool is_terminal_ = false;
  int columns_ = 0;
  bool is_line_open_ = false;
};

}  // namespace trireme
