#include "trireme/cost/stages.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "trireme/program/pipeline.h"

namespace trireme {
namespace {

using Counts = std::vector<std::int64_t>;

Counts even_counts(std::int64_t layers, std::size_t num_stages) {
  const auto stages = static_cast<std::int64_t>(num_stages);
  Counts counts(num_stages, layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

/// A stage ends with the layer that fills its share of all costs; the head counts and comes last.
Counts cumulative_counts(const ModelShape& model, std::size_t num_stages) {
  const std::int64_t layer =
      4 * model.hidden * model.q_width() + (model.is_gated ? 3 : 2) * model.hidden * model.ffn;
  const std::int64_t total = model.layers * layer + model.table_elems();
  const auto stages = static_cast<std::int64_t>(num_stages);
  Counts counts(num_stages, 0);
  std::int64_t stage = 0;
  for (std::int64_t done = 1; done <= model.layers; ++done) {
    ++counts[static_cast<std::size_t>(stage)];
    const bool is_full = static_cast<double>(done * layer) * static_cast<double>(stages) >=
                         static_cast<double>(total) * static_cast<double>(stage + 1);
    if (stage + 1 < stages && is_full) ++stage;
  }
  return counts;
}

Counts balanced_counts(const ModelShape& model, std::size_t num_stages) {
  if (static_cast<std::int64_t>(num_stages) > model.layers) {
    return even_counts(model.layers, num_stages);
  }
  return balanced_stages(spec_of(model), static_cast<int>(num_stages));
}

Counts layer_counts(const Workload& workload, StageSplit split, std::size_t num_stages) {
  if (workload.layout.stages.size() == num_stages) return workload.layout.stages;
  switch (split) {
    case StageSplit::kEven:
      return even_counts(workload.model.layers, num_stages);
    case StageSplit::kCumulative:
      return cumulative_counts(workload.model, num_stages);
    case StageSplit::kBalanced:
      break;
  }
  return balanced_counts(workload.model, num_stages);
}

bool is_named(const Layout& layout, std::string_view name) {
  return layout.schedule.starts_with(name);
}

int chunks_of(const Layout& layout) {
  if (layout.chunks > 0) return layout.chunks;
  const bool has_two = is_named(layout, "interleaved") || is_named(layout, "breadth-first") ||
                       is_named(layout, "zb-v");
  return has_two ? 2 : 1;
}

}  // namespace

std::vector<StageShare> chunk_shares(const Workload& workload, StageSplit split) {
  const int ranks = workload.layout.pp;
  const auto stages = static_cast<std::size_t>(ranks == 1 ? 1 : ranks * chunks_of(workload.layout));
  std::vector<StageShare> shares(stages);
  const Counts counts =
      stages == 1 ? Counts{workload.model.layers} : layer_counts(workload, split, stages);
  for (std::size_t stage = 0; stage < stages; ++stage)
    shares[stage].layers = static_cast<int>(counts[stage]);
  shares.front().has_embedding = true;
  shares.back().has_head = true;
  return shares;
}

std::vector<StageShare> stage_shares(const Workload& workload, StageSplit split) {
  const auto ranks = static_cast<std::size_t>(workload.layout.pp);
  const std::vector<StageShare> chunks = chunk_shares(workload, split);
  std::vector<StageShare> shares(ranks);
  const bool is_v = is_named(workload.layout, "zb-v");
  for (std::size_t stage = 0; stage < chunks.size(); ++stage) {
    const std::size_t rank = is_v && stage >= ranks ? chunks.size() - 1 - stage : stage % ranks;
    shares[rank].layers += chunks[stage].layers;
    shares[rank].has_embedding = shares[rank].has_embedding || chunks[stage].has_embedding;
    shares[rank].has_head = shares[rank].has_head || chunks[stage].has_head;
  }
  return shares;
}

double micro_batches_in_flight(const Workload& workload, int rank) {
  const Layout& layout = workload.layout;
  if (layout.pp == 1) return 1;
  const auto all = static_cast<double>(workload.num_micro_batches());
  const double pp = layout.pp;
  const int chunks = chunks_of(layout);
  if (is_named(layout, "gpipe") || is_named(layout, "breadth-first")) return all;
  if (is_named(layout, "zb-h2")) return std::min(all, 2 * pp - 1);
  if (is_named(layout, "zb-v")) return std::min(all, pp - rank / 2.0);
  if (is_named(layout, "dualpipe")) return std::min(all, pp + 1);
  if (chunks == 1) return std::min(all, pp - rank);
  return std::min(all, (2 * (pp - rank - 1) + (chunks - 1) * pp + 1) / chunks);
}

double micro_batches_in_frames(const Workload& workload, int rank) {
  const Layout& layout = workload.layout;
  if (layout.pp == 1 || !is_named(layout, "interleaved"))
    return micro_batches_in_flight(workload, rank);
  // In groups of pp micro-batches: forwards done before the first backward of a chunk, which belong
  // to the chunk in the first or in the second group.
  const int pp = layout.pp;
  const int chunks = chunks_of(layout);
  const std::int64_t all = workload.num_micro_batches();
  std::int64_t frames = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int done = 2 * (pp - 1 - rank) + (2 * chunks - 2 - chunk) * pp + 1;
    const int of_first = std::clamp(done - chunk * pp, 0, pp);
    const int of_second = std::clamp(done - (chunks + chunk) * pp, 0, pp);
    frames += std::min<std::int64_t>(all, of_first + of_second);
  }
  return static_cast<double>(frames) / chunks;
}

bool splits_backward(const Layout& layout) {
  return layout.pp > 1 && is_named(layout, "zb");
}

double weight_halves_in_flight(const Workload& workload, int rank) {
  if (!splits_backward(workload.layout) || is_named(workload.layout, "zb-h2")) return 0;
  const auto all = static_cast<double>(workload.num_micro_batches());
  return std::min<double>(all, rank);
}

double bubble_share(const Layout& layout) {
  if (is_named(layout, "zb-v")) return 1.0 / 6.0;
  if (is_named(layout, "zb-h")) return 1.0 / 3.0;
  if (is_named(layout, "dualpipe")) return 1.0 / 6.0;
  return 1.0 / chunks_of(layout);
}

}  // namespace trireme
