#include "trireme/data/batch.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

/// Whole windows in `num_tokens`; written so that too few tokens cannot wrap round.
std::int64_t count_windows(std::int64_t num_tokens, std::int64_t seq_len) {
  return num_tokens > seq_len ? (num_tokens - 1) / seq_len : 0;
}

/// Each array has so many elements, or none if it is not wanted.
void check_arrays(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
                  std::int64_t num_elems) {
  for (const auto& array : {tokens, labels})
    TRI_CHECK(array.empty() || std::ssize(array) == num_elems);
}

/// Row `row` of a [B, T] array; empty of one that is not wanted.
std::span<std::int32_t> row_of(std::span<std::int32_t> array_bt, std::size_t row,
                               std::int64_t num_tokens) {
  if (array_bt.empty()) return {};
  const auto length = narrow<std::size_t>(num_tokens);
  return array_bt.subspan(row * length, length);
}

std::int64_t check_fills_global_batch(std::int64_t num_windows, std::int64_t global_batch) {
  if (global_batch < 1) {
    throw UsageError(
        fmt::format("[batch] global_batch = {}: must be at least 1 sequence; correct "
                    "it",
                    global_batch));
  }
  if (num_windows < global_batch) {
    throw UsageError(
        fmt::format("[data] {} training windows, batch.global_batch = {}: one epoch "
                    "must hold a global batch (0 fit); add text, or lower "
                    "batch.global_batch or batch.seq",
                    num_windows, global_batch));
  }
  return num_windows;
}

}  // namespace

WindowTable::WindowTable(const Corpus& corpus, Split split, std::int64_t seq_len)
    : corpus_(corpus), split_(split), seq_len_(seq_len), first_window_{0} {
  if (seq_len < 1) {
    throw UsageError(
        fmt::format("[batch] seq = {}: a window has at least 1 token; correct it", seq_len));
  }
  for (int file = 0; file < corpus.num_files(); ++file) {
    const std::int64_t num_tokens = corpus.num_tokens(file, split);
    const std::int64_t num_windows = count_windows(num_tokens, seq_len);
    if (num_windows == 0 && split == Split::kTrain) {
      throw UsageError(
          fmt::format("[data] text = \"{}\": {} training tokens, batch.seq = {}: each "
                      "file needs at least seq + 1 = {} after the validation part is "
                      "taken off; join short files, lower batch.seq or "
                      "data.val_fraction",
                      corpus.path(file), num_tokens, seq_len, seq_len + 1));
    }
    first_window_.push_back(first_window_.back() + num_windows);
  }
  if (num_windows() == 0) {
    throw UsageError(
        fmt::format("[data] {} validation tokens in {} files, batch.seq = {}: one "
                    "file's part must hold seq + 1 = {}; raise data.val_fraction or "
                    "set run.eval_every = 0",
                    corpus.num_tokens(split), corpus.num_files(), seq_len, seq_len + 1));
  }
}

void WindowTable::fill(std::int64_t window, std::span<std::int32_t> tokens_t,
                       std::span<std::int32_t> labels_t, const TokenPieces& pieces) const {
  TRI_CHECK(window >= 0 && window < num_windows());
  const std::int64_t num_tokens = pieces.num_tokens(seq_len_);
  TRI_CHECK(pieces.position(0) >= 0 && pieces.position(num_tokens - 1) < seq_len_);
  check_arrays(tokens_t, labels_t, num_tokens);
  const auto next_file = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto file = static_cast<int>(next_file - first_window_.begin()) - 1;
  const std::int64_t first = (window - *(next_file - 1)) * seq_len_;
  if (!tokens_t.empty()) read(file, first, pieces, tokens_t);
  if (!labels_t.empty()) read(file, first + 1, pieces, labels_t);
}

void WindowTable::read(int file, std::int64_t first, const TokenPieces& pieces,
                       std::span<std::int32_t> out) const {
  if (!pieces.is_cut()) return corpus_.read(file, split_, first + pieces.first, out);
  const auto half = narrow<std::size_t>(pieces.piece_tokens);
  corpus_.read(file, split_, first + pieces.first, out.first(half));
  corpus_.read(file, split_, first + pieces.second, out.subspan(half));
}

TrainBatches::TrainBatches(const Corpus& corpus, TrainBatchOptions options)
    : windows_(corpus, Split::kTrain, options.seq_len),
      index_(check_fills_global_batch(windows_.num_windows(), options.global_batch), options.seed) {
}

void TrainBatches::fill(std::span<const std::int64_t> samples, std::span<std::int32_t> tokens_bt,
                        std::span<std::int32_t> labels_bt, const TokenPieces& pieces) const {
  const std::int64_t num_tokens = pieces.num_tokens(windows_.seq_len());
  check_arrays(tokens_bt, labels_bt, std::ssize(samples) * num_tokens);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    windows_.fill(index_.window_of(samples[row]), row_of(tokens_bt, row, num_tokens),
                  row_of(labels_bt, row, num_tokens), pieces);
  }
}

EvalBatches::EvalBatches(const Corpus& corpus, Split split, std::int64_t seq_len,
                         std::optional<std::int64_t> eval_tokens)
    : windows_(corpus, split, seq_len), num_windows_(windows_.num_windows()) {
  if (!eval_tokens) return;
  if (*eval_tokens < 1) {
    throw UsageError(
        fmt::format("[run] eval_tokens = {}: an evaluation needs at least 1 token; "
                    "raise it, or set run.eval_every = 0",
                    *eval_tokens));
  }
  num_windows_ = std::min(num_windows_, (*eval_tokens - 1) / seq_len + 1);
}

void EvalBatches::fill(std::span<const std::int64_t> windows, std::span<std::int32_t> tokens_bt,
                       std::span<std::int32_t> labels_bt, const TokenPieces& pieces) const {
  const std::int64_t num_tokens = pieces.num_tokens(windows_.seq_len());
  check_arrays(tokens_bt, labels_bt, std::ssize(windows) * num_tokens);
  for (std::size_t row = 0; row < windows.size(); ++row) {
    const auto tokens_t = row_of(tokens_bt, row, num_tokens);
    const auto labels_t = row_of(labels_bt, row, num_tokens);
    if (windows[row] < num_windows_) {
      windows_.fill(windows[row], tokens_t, labels_t, pieces);
    } else {
      std::fill(tokens_t.begin(), tokens_t.end(), 0);
      std::fill(labels_t.begin(), labels_t.end(), kIgnoredLabel);
    }
  }
}

}  // namespace trireme
