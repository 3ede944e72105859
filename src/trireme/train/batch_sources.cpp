#include "trireme/train/batch_sources.h"

#include <algorithm>
#include <cstddef>

#include "trireme/base/units.h"

namespace trireme {

BatchCut batch_cut(const Layout& layout, const Batch& batch, int rank) {
  const MeshCoord coord = layout.mesh().coord_of(rank);
  return {.micro_batch = batch.micro_batch,
          .seq = div_exact(batch.seq, layout.cp),
          .pieces = zigzag_pieces(batch.seq, layout.cp, coord.cp),
          .dp = layout.dp,
          .dp_rank = coord.dp};
}

TrainSource::TrainSource(const TrainBatches& batches, BatchCut cut, std::int64_t num_valid_tokens)
    : batches_(batches),
      cut_(cut),
      num_valid_tokens_(num_valid_tokens),
      samples_(static_cast<std::size_t>(cut.micro_batch)) {}

void TrainSource::load(int micro_batch, const MicroBatch& out) {
  for (std::size_t b = 0; b < samples_.size(); ++b) {
    samples_[b] = first_sample_ + cut_.row(micro_batch, static_cast<std::int64_t>(b));
  }
  batches_.fill(samples_, out.tokens, out.labels, cut_.pieces);
  if (!out.samples.empty()) std::copy(samples_.begin(), samples_.end(), out.samples.begin());
}

EvalSource::EvalSource(const EvalBatches& batches, BatchCut cut, int num_micro_batches)
    : batches_(batches), cut_(cut), windows_(static_cast<std::size_t>(cut.micro_batch)) {
  for (int micro_batch = 0; micro_batch < num_micro_batches; ++micro_batch) {
    for (std::int64_t b = 0; b < cut.micro_batch; ++b) {
      if (cut.row(micro_batch, b) < batches.num_windows()) num_valid_tokens_ += cut.seq;
    }
  }
}

void EvalSource::load(int micro_batch, const MicroBatch& out) {
  for (std::size_t b = 0; b < windows_.size(); ++b) {
    windows_[b] = cut_.row(micro_batch, static_cast<std::int64_t>(b));
  }
  batches_.fill(windows_, out.tokens, out.labels, cut_.pieces);
}

}  // namespace trireme
