// Windows of the corpus as batches of tokens and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trireme/base/token_pieces.h"
#include "trireme/data/corpus.h"
#include "trireme/data/sample_index.h"

namespace trireme {

/// A label that takes no part in the loss.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// The windows of one split: each file's part is cut, from its start, into consecutive runs of
/// seq_len + 1 tokens that share one boundary token (the last label of a window is the first token
/// of the next), floor((tokens - 1) / seq_len) of them; no window crosses files. Windows count
/// through the files in their order. Refers to the corpus, which must outlive it.
class WindowTable {
 public:
  /// Throws UsageError unless seq_len >= 1 and each file's part (training) or some file's part
  /// (validation, where a part too short for a window adds none) has seq_len + 1 tokens.
  WindowTable(const Corpus& corpus, Split split, std::int64_t seq_len);

  [[nodiscard]] std::int64_t num_windows() const { return first_window_.back(); }
  [[nodiscard]] std::int64_t seq_len() const { return seq_len_; }
  /// Fills token t and label t (= token t + 1) of one window, for the positions t of `pieces`; a
  /// span has as many elements as they have tokens of seq_len, or none if it is not wanted.
  void fill(std::int64_t window, std::span<std::int32_t> tokens_t, std::span<std::int32_t> labels_t,
            const TokenPieces& pieces = {}) const;

 private:
  /// Fills `out` with the tokens at the positions of `pieces`, of the run that begins at `first`.
  void read(int file, std::int64_t first, const TokenPieces& pieces,
            std::span<std::int32_t> out) const;

  const Corpus& corpus_;
  Split split_;
  std::int64_t seq_len_;
  std::vector<std::int64_t> first_window_;  ///< by file, then the total
};

struct TrainBatchOptions {
  std::int64_t seq_len = 0;
  std::int64_t global_batch = 0;  ///< sequences
  std::uint64_t seed = 0;
};

/// The training data. Global sample numbers of step s (0-based) are
/// [s * global_batch, (s + 1) * global_batch); how they spread over ranks and micro-batches is the
/// caller's choice. Const and thread-safe.
class TrainBatches {
 public:
  /// Throws UsageError as WindowTable does, and unless the training windows fill a global batch.
  TrainBatches(const Corpus& corpus, TrainBatchOptions options);

  [[nodiscard]] const SampleIndex& index() const { return index_; }
  /// Fills row b of [B, T] with samples[b], B = samples.size(), T = the tokens of `pieces`; an
  /// empty array is not wanted.
  void fill(std::span<const std::int64_t> samples, std::span<std::int32_t> tokens_bt,
            std::span<std::int32_t> labels_bt, const TokenPieces& pieces = {}) const;

 private:
  WindowTable windows_;
  SampleIndex index_;
};

/// What an evaluation reads: windows 0, 1, ... of a split in order, the same every time. Const and
/// thread-safe.
class EvalBatches {
 public:
  /// Evaluates ceil(eval_tokens / seq_len) windows, at most those there are; all of them without
  /// eval_tokens. Throws UsageError as WindowTable does, and unless eval_tokens >= 1.
  EvalBatches(const Corpus& corpus, Split split, std::int64_t seq_len,
              std::optional<std::int64_t> eval_tokens);

  [[nodiscard]] std::int64_t num_windows() const { return num_windows_; }
  /// Valid labels of one evaluation.
  [[nodiscard]] std::int64_t num_tokens() const { return num_windows_ * windows_.seq_len(); }
  /// Fills row b of [B, T] with windows[b], T = the tokens of `pieces`; an empty array is not
  /// wanted. Rows at and beyond num_windows(), which pad the last batch, get token 0 and
  /// kIgnoredLabel.
  void fill(std::span<const std::int64_t> windows, std::span<std::int32_t> tokens_bt,
            std::span<std::int32_t> labels_bt, const TokenPieces& pieces = {}) const;

 private:
  WindowTable windows_;
  std::int64_t num_windows_;
};

}  // namespace trireme
