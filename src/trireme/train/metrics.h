// metrics.jsonl: one strict JSON object per line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// What one training step reports.
struct StepMetrics {
  std::int64_t step = 0;          ///< 1-based
  double loss = 0.0;              ///< nats per valid target token of the global batch
  double grad_norm = 0.0;         ///< before clipping
  double lr = 0.0;                ///< as used by this update
  std::int64_t tokens = 0;        ///< processed since step 1, each counted once, not per rank
  std::int64_t valid_tokens = 0;  ///< valid targets of this step
  double step_seconds = 0.0;
  double tokens_per_second = 0.0;
  double tokens_per_second_per_rank = 0.0;
  std::optional<double> mfu = {};  ///< 0..1; nothing if the peak is unknown
  std::int64_t memory_bytes = 0;   ///< of the fullest rank
  std::int64_t skipped = 0;        ///< steps skipped so far as not finite
};

/// What one evaluation reports.
struct EvalMetrics {
  std::int64_t step = 0;    ///< steps done
  double loss = 0.0;        ///< nats per valid token
  std::int64_t tokens = 0;  ///< valid tokens evaluated
};

/// Throughput of a step, for StepMetrics: each token counts once, whatever tp, cp and pp are.
struct TokenRates {
  double tokens_per_second = 0.0;
  double tokens_per_second_per_rank = 0.0;
};
[[nodiscard]] TokenRates token_rates(std::int64_t tokens, double seconds, int world);

/// One line without its line break. A number that is not finite is null; finite ones read back to
/// the same bits; the decimal point does not depend on the locale.
[[nodiscard]] std::string metrics_line(const StepMetrics& metrics);
[[nodiscard]] std::string metrics_line(const EvalMetrics& metrics);

/// Appends lines to a metrics.jsonl. Each line is handed to the system in one piece, so that a
/// killed process leaves at most the last line cut.
class MetricsWriter {
 public:
  /// Continues after `resume_step`: lines of later steps and a cut last line are dropped, by
  /// replacing the file at once. 0 starts a new file. Throws ResourceError if the file cannot be
  /// written.
  explicit MetricsWriter(std::filesystem::path path, std::int64_t resume_step = 0);

  /// Throws ResourceError, for example when the disk is full.
  void write(const StepMetrics& metrics) { write_line(metrics_line(metrics)); }
  void write(const EvalMetrics& metrics) { write_line(metrics_line(metrics)); }

 private:
  void write_line(std::string line);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace trireme
