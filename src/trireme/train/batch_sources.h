// What a rank's programs load: training samples and held-out windows.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/data/batch.h"
#include "trireme/execute/backend.h"
#include "trireme/layout/layout.h"

namespace trireme {

/// A rank's part of a global batch: row b of micro-batch j on dp rank r is sample
/// first + (j * dp + r) * B + b, of which a cp rank has `seq` tokens.
struct BatchCut {
  std::int64_t micro_batch = 1;  ///< B
  std::int64_t seq = 1;
  TokenPieces pieces = {};
  int dp = 1;
  int dp_rank = 0;
  [[nodiscard]] std::int64_t row(int micro_batch_index, std::int64_t b) const {
    return (std::int64_t{micro_batch_index} * dp + dp_rank) * micro_batch + b;
  }
};

[[nodiscard]] BatchCut batch_cut(const Layout& layout, const Batch& batch, int rank);

class TrainSource final : public BatchSource {
 public:
  /// `batches` outlives the source.
  TrainSource(const TrainBatches& batches, BatchCut cut, std::int64_t num_valid_tokens);
  /// First global sample of the next step.
  void set_position(std::int64_t first_sample) { first_sample_ = first_sample; }
  void load(int micro_batch, const MicroBatch& out) override;
  [[nodiscard]] std::int64_t num_valid_tokens() const override { return num_valid_tokens_; }

 private:
  const TrainBatches& batches_;
  BatchCut cut_;
  std::int64_t num_valid_tokens_;
  std::int64_t first_sample_ = 0;
  std::vector<std::int64_t> samples_;
};

class EvalSource final : public BatchSource {
 public:
  /// `batches` outlives the source; the rank evaluates `num_micro_batches` micro-batches. Rows
  /// beyond the last window have no labels.
  EvalSource(const EvalBatches& batches, BatchCut cut, int num_micro_batches);
  void load(int micro_batch, const MicroBatch& out) override;
  [[nodiscard]] std::int64_t num_valid_tokens() const override { return num_valid_tokens_; }

 private:
  const EvalBatches& batches_;
  BatchCut cut_;
  std::int64_t num_valid_tokens_ = 0;
  std::vector<std::int64_t> windows_;
};

}  // namespace trireme
