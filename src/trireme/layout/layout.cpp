#include "trireme/layout/layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 3> kRecomputeNames = {"none", "selective", "full"};
constexpr std::array<std::string_view, 3> kDpSyncNames = {"naive", "bucketed", "overlapped"};
constexpr std::array<std::string_view, 2> kReductionNames = {"step", "micro_batch"};
constexpr std::array<std::string_view, 3> kReshardNames = {"auto", "always", "never"};
constexpr std::array<std::string_view, 2> kCpCommNames = {"ring", "all_gather"};

// So that products of two of them fit 64 bits.
constexpr std::int64_t kMaxBatchField = (std::int64_t{1} << 31) - 1;
constexpr double kMaxBucketMib = 0x1p30;  // 1 PiB; its bytes fit 64 bits

void check_degrees(const Layout& layout) {
  static_cast<void>(layout.mesh());  // refuses pp, dp, cp, tp < 1
  if (layout.ep < 1) {
    throw UsageError(fmt::format("[layout] ep = {}: must be at least 1; use ep = 1", layout.ep));
  }
  if (layout.zero < 0 || layout.zero > 3) {
    throw UsageError(fmt::format("[layout] zero = {}: must be a stage from 0 to 3; use zero = {}",
                                 layout.zero, std::clamp(layout.zero, 0, 3)));
  }
  if (!(layout.bucket_mib > 0.0 && layout.bucket_mib <= kMaxBucketMib)) {
    throw UsageError(
        fmt::format("[layout] bucket_mib = {}: must be above 0 and at most {} MiB; use 25",
                    layout.bucket_mib, kMaxBucketMib));
  }
}

/// What only some stages of ZeRO know.
void check_zero(const Layout& layout) {
  const auto refuse = [&](std::string_view key, std::string_view value, int least,
                          std::string_view why, std::string_view otherwise) {
    throw UsageError(
        fmt::format("[layout] {0} = {1} with zero = {2}: {3}; use {0} = {4}, or zero = {5}", key,
                    value, layout.zero, why, otherwise, least));
  };
  const Layout defaults;
  if (layout.zero < 2 && layout.reduce != defaults.reduce) {
    refuse("reduce", gradient_reduction_name(layout.reduce), 2,
           "a shard of the gradients needs ZeRO-2 or 3", gradient_reduction_name(defaults.reduce));
  }
  if (layout.zero < 3 && layout.reshard != defaults.reshard)
    refuse("reshard", reshard_name(layout.reshard), 3, "only ZeRO-3 gathers layers",
           reshard_name(defaults.reshard));
  if (layout.prefetch < 0) {
    throw UsageError(fmt::format("[layout] prefetch = {}: must be at least 0; use prefetch = 1",
                                 layout.prefetch));
  }
  if (layout.zero < 3 && layout.prefetch != defaults.prefetch)
    refuse("prefetch", fmt::format("{}", layout.prefetch), 3, "only ZeRO-3 gathers layers",
           fmt::format("{}", defaults.prefetch));
  if (layout.zero >= 2 && layout.dp_sync != DpSync::kOverlapped) {
    throw UsageError(fmt::format(
        "[layout] dp_sync = {} with zero = {}: ZeRO-2 and 3 start each reduction as soon as its "
        "bucket is complete; use dp_sync = overlapped, or zero = 1",
        dp_sync_name(layout.dp_sync), layout.zero));
  }
}

void check_shards(const Layout& layout) {
  if (layout.dp_shard == 0) return;
  if (layout.zero == 0) {
    throw UsageError(
        fmt::format("[layout] dp_shard = {} with zero = 0: must be 0 where nothing is sharded; use "
                    "dp_shard = 0, or zero = 1 or more",
                    layout.dp_shard));
  }
  if (layout.dp_shard > 0 && layout.dp % layout.dp_shard == 0) return;
  std::vector<int> divisors;
  for (int divisor = 1; divisor <= layout.dp; ++divisor) {
    if (layout.dp % divisor == 0) divisors.push_back(divisor);
  }
  throw UsageError(
      fmt::format("[layout] dp_shard = {} with dp = {}: must divide dp; use one of dp_shard = {}",
                  layout.dp_shard, layout.dp, fmt::join(divisors, ", ")));
}

void check_pipeline_fields(const Layout& layout) {
  // In the layout's text a blank ends the field and ":" begins the chunks.
  if (layout.schedule.empty() || layout.schedule.find_first_of(" \t\r\n:") != std::string::npos) {
    throw UsageError(fmt::format(
        "[layout] schedule = \"{}\": must be a name or a path without blanks and \":\"; use 1f1b",
        layout.schedule));
  }
  if (layout.chunks < 0) {
    throw UsageError(fmt::format(
        "[layout] chunks = {}: must be at least 0; use chunks = 0, the schedule's own number",
        layout.chunks));
  }
  if (std::any_of(layout.stages.begin(), layout.stages.end(),
                  [](std::int64_t num_layers) { return num_layers < 0; })) {
    throw UsageError(
        fmt::format("[layout] stages = {}: must be numbers of layers, at least 0; correct them, or "
                    "leave them out for stages of equal cost",
                    fmt::join(layout.stages, ", ")));
  }
}

void check_is_built(const Layout& layout) {
  if (layout.ep > 1) {
    throw UsageError(fmt::format(
        "[layout] ep = {}: expert parallelism is not built yet; use ep = 1", layout.ep));
  }
}

void check_batch_field(std::string_view field, std::int64_t value) {
  if (value >= 1 && value <= kMaxBatchField) return;
  throw UsageError(fmt::format("[batch] {} = {}: must be from 1 to {}; use {}", field, value,
                               kMaxBatchField, value < 1 ? 1 : kMaxBatchField));
}

void check_batch(const ModelSpec& spec, const Layout& layout, const Batch& batch) {
  check_batch_field("seq", batch.seq);
  check_batch_field("micro_batch", batch.micro_batch);
  check_batch_field("global_batch", batch.global_batch);
  if (spec.max_seq > 0 && batch.seq > spec.max_seq) {
    throw UsageError(
        fmt::format("[batch] seq = {} with [model] max_seq = {}: a sequence must not be longer "
                    "than max_seq; use seq = {}",
                    batch.seq, spec.max_seq, spec.max_seq));
  }
  // Far beyond any machine, and far enough from the end of 64 bits that no size below can overflow.
  constexpr double kMaxElems = 0x1p56;
  const auto widest =
      static_cast<double>(std::max({spec.hidden, spec.up_width(), spec.vocab, spec.qkv_width()}));
  const double elems = static_cast<double>(batch.micro_batch) * static_cast<double>(batch.seq) *
                       widest * static_cast<double>(spec.layers);
  if (elems > kMaxElems ||
      static_cast<double>(batch.global_batch) * static_cast<double>(batch.seq) > kMaxElems) {
    throw UsageError(fmt::format(
        "[batch] micro_batch = {}, seq = {}, global_batch = {}: activations of this model would "
        "have more than 2^56 elements; make them smaller",
        batch.micro_batch, batch.seq, batch.global_batch));
  }
  const std::int64_t sequences = batch.micro_batch * layout.dp;
  if (batch.global_batch % sequences != 0) {
    throw UsageError(fmt::format(
        "[batch] global_batch = {} with micro_batch = {} and dp = {}: must be a multiple of "
        "micro_batch * dp = {}; use global_batch = {}",
        batch.global_batch, batch.micro_batch, layout.dp, sequences,
        nearest_multiples(batch.global_batch, sequences, kMaxBatchField)));
  }
}

/// Each tensor-parallel rank has as many heads, key/value heads and ffn columns, and at least one
/// row of the vocabulary.
void check_tensor_parallelism(const ModelSpec& spec, const Layout& layout) {
  const std::int64_t common = std::gcd(std::gcd(spec.heads, spec.kv_heads), spec.ffn);
  if (common % layout.tp == 0 && layout.tp <= spec.vocab) return;
  std::vector<std::int64_t> valid, upper;
  for (std::int64_t small = 1; small * small <= common; ++small) {
    if (common % small != 0) continue;
    if (small <= spec.vocab) valid.push_back(small);
    const std::int64_t large = common / small;
    if (large != small && large <= spec.vocab) upper.push_back(large);
  }
  valid.insert(valid.end(), upper.rbegin(), upper.rend());
  throw UsageError(fmt::format(
      "[layout] tp = {} with [model] heads = {}, kv_heads = {}, ffn = {} and vocab = {}: must "
      "divide heads, kv_heads and ffn, and be at most vocab; use one of tp = {}",
      layout.tp, spec.heads, spec.kv_heads, spec.ffn, spec.vocab, fmt::join(valid, ", ")));
}

std::int64_t longest_seq(const ModelSpec& spec) {
  return spec.max_seq > 0 ? spec.max_seq : kMaxBatchField;
}

/// Every rank has two pieces of each sequence, all of one length.
void check_context_parallelism(const ModelSpec& spec, const Layout& layout, const Batch& batch) {
  const std::int64_t num_pieces = 2 * std::int64_t{layout.cp};
  if (layout.cp == 1 || batch.seq % num_pieces == 0) return;
  if (num_pieces > longest_seq(spec)) {
    throw UsageError(fmt::format(
        "[layout] cp = {} with [model] max_seq = {}: a sequence must have 2 * cp = {} pieces; use "
        "cp = {}",
        layout.cp, spec.max_seq, num_pieces, std::max<std::int64_t>(1, spec.max_seq / 2)));
  }
  throw UsageError(fmt::format(
      "[layout] cp = {} with [batch] seq = {}: must be a multiple of 2 * cp = {}; use seq = {}",
      layout.cp, batch.seq, num_pieces,
      nearest_multiples(batch.seq, num_pieces, longest_seq(spec))));
}

void check_sequence_parallelism(const ModelSpec& spec, const Layout& layout, const Batch& batch) {
  if (!layout.sp) return;
  if (layout.tp == 1) {
    throw UsageError(
        "[layout] sp = 1 with tp = 1: must be 0 without tensor-parallel ranks to cut a sequence "
        "over; use sp = 0, or tp = 2 or more");
  }
  const std::int64_t own_seq = batch.seq / layout.cp, tp = layout.tp;
  if (batch.micro_batch * own_seq % tp == 0) return;
  const bool is_cut = layout.cp > 1;  // then seq / cp is even: two pieces
  const std::int64_t seq_unit =
      layout.cp * std::lcm(tp / std::gcd(tp, batch.micro_batch), std::int64_t{is_cut ? 2 : 1});
  throw UsageError(fmt::format(
      "[layout] sp = 1 and tp = {}{} with [batch] micro_batch = {} and seq = {}: micro_batch * "
      "seq{} = {} must be a multiple of tp; use seq = {}, or micro_batch = {}",
      tp, is_cut ? fmt::format(" and cp = {}", layout.cp) : "", batch.micro_batch, batch.seq,
      is_cut ? " / cp" : "", batch.micro_batch * own_seq,
      nearest_multiples(batch.seq, seq_unit, longest_seq(spec)),
      nearest_multiples(batch.micro_batch, tp / std::gcd(tp, own_seq), kMaxBatchField)));
}

}  // namespace

std::string_view recompute_name(Recompute recompute) {
  return kRecomputeNames.at(static_cast<std::size_t>(recompute));
}

std::string_view dp_sync_name(DpSync sync) {
  return kDpSyncNames.at(static_cast<std::size_t>(sync));
}

std::string_view gradient_reduction_name(GradientReduction reduction) {
  return kReductionNames.at(static_cast<std::size_t>(reduction));
}

std::string_view reshard_name(Reshard reshard) {
  return kReshardNames.at(static_cast<std::size_t>(reshard));
}

std::string_view cp_comm_name(CpComm comm) {
  return kCpCommNames.at(static_cast<std::size_t>(comm));
}

std::int64_t Batch::num_micro_batches(const Layout& layout) const {
  return div_exact(global_batch, micro_batch * layout.dp);
}

void check_layout(const ModelSpec& spec, const Layout& layout, const Batch& batch) {
  check_degrees(layout);
  check_zero(layout);
  check_shards(layout);
  check_pipeline_fields(layout);
  check_is_built(layout);
  check_batch(spec, layout, batch);
  check_context_parallelism(spec, layout, batch);
  check_tensor_parallelism(spec, layout);
  check_sequence_parallelism(spec, layout, batch);
}

StateBytes model_state_bytes(std::int64_t num_parameters, bool is_bf16, int zero, int dp) {
  TRI_CHECK(num_parameters >= 0 && 0 <= zero && zero <= 3 && dp >= 1);
  const auto held_elems = [&](int first_stage_that_shards) {
    return zero >= first_stage_that_shards ? div_ceil(num_parameters, dp) : num_parameters;
  };
  return {.parameters = held_elems(3) * (is_bf16 ? 2 : 4),
          .gradients = held_elems(2) * 4,
          .master = is_bf16 ? held_elems(1) * 4 : 0,
          .moments = held_elems(1) * 8};
}

}  // namespace trireme
