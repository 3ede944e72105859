// How a training step is cut over ranks, and how its batch is cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/layout/mesh.h"
#include "trireme/model/spec.h"

namespace trireme {

enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
enum class DpSync : std::uint8_t {
  kNaive,       ///< one all-reduce of all gradients after the backward pass
  kBucketed,    ///< one reduction per bucket after the backward pass
  kOverlapped,  ///< a bucket's reduction starts right after its last gradient is written
};
/// How often ZeRO-2 and ZeRO-3 reduce gradients.
enum class GradientReduction : std::uint8_t {
  kStep,        ///< once a step; between its micro-batches each rank holds all of them
  kMicroBatch,  ///< after each micro-batch, into the rank's shard
};
/// Whether ZeRO-3 drops gathered parameters after the forward pass of a micro-batch and gathers
/// them again for its backward pass.
enum class Reshard : std::uint8_t {
  kAuto,    ///< always without a pipeline, never with one
  kAlways,  ///< after each pass
  kNever,   ///< gathered once a step and held
};

enum class CpComm : std::uint8_t {
  kRing,       ///< keys and values go round the ranks, one hop for each part of the attention
  kAllGather,  ///< every rank gathers all keys and values before its attention
};

[[nodiscard]] std::string_view recompute_name(Recompute recompute);
[[nodiscard]] std::string_view dp_sync_name(DpSync sync);
[[nodiscard]] std::string_view gradient_reduction_name(GradientReduction reduction);
[[nodiscard]] std::string_view reshard_name(Reshard reshard);
[[nodiscard]] std::string_view cp_comm_name(CpComm comm);

/// Degrees and strategies. Keys of `[layout]` bear the same names.
struct Layout {
  int pp = 1;
  int dp = 1;
  int cp = 1;
  CpComm cp_comm = CpComm::kRing;  ///< no effect with cp = 1
  int tp = 1;
  int ep = 1;
  bool sp = false;  ///< sequence parallelism within tp (arXiv:2205.05198, section 4.2.2)
  /// Of the pipeline: a name of program/schedules, or the path of a file in its CSV grammar;
  /// without blanks and ":". No effect with pp = 1.
  std::string schedule = "1f1b";
  int chunks = 0;  ///< stages of a rank; 0 = the schedule's own number, 2 where it takes any
  /// Layers of each of the pp * chunks stages (pp of a bidirectional schedule); empty = balanced by
  /// cost.
  std::vector<std::int64_t> stages = {};
  int zero = 0;  ///< ZeRO stage 0-3 (arXiv:1910.02054)
  /// dp ranks over which ZeRO shards, a divisor of dp; each such group has a copy of its own
  /// (hybrid sharding). 0 = all.
  int dp_shard = 0;
  GradientReduction reduce = GradientReduction::kStep;
  Reshard reshard = Reshard::kAuto;
  int prefetch = 1;  ///< layers whose parameters ZeRO-3 gathers ahead of the one that computes
  DpSync dp_sync = DpSync::kOverlapped;
  /// A bucket closes once it holds this many MiB of gradients; with ZeRO-3 a bucket is a layer.
  double bucket_mib = 25.0;
  Recompute recompute = Recompute::kNone;

  bool operator==(const Layout&) const = default;
  [[nodiscard]] Mesh mesh() const { return Mesh({.pp = pp, .dp = dp, .cp = cp, .tp = tp}); }
  [[nodiscard]] int world() const { return pp * dp * cp * tp; }
  /// Of what ZeRO shards, over replicas of the same parameters; 1 without ZeRO.
  [[nodiscard]] int num_shards() const {
    return zero == 0 ? 1 : (dp_shard == 0 ? dp : dp_shard) * cp;
  }
  [[nodiscard]] bool reshards() const {
    return reshard == Reshard::kAlways || (reshard == Reshard::kAuto && pp == 1);
  }
};

/// Sequences per step and how they are cut. Keys of `[batch]`.
struct Batch {
  std::int64_t seq = 0;           ///< T, tokens of one sequence
  std::int64_t micro_batch = 1;   ///< B, sequences that a rank handles at once
  std::int64_t global_batch = 1;  ///< sequences per step over all ranks

  bool operator==(const Batch&) const = default;
  /// Micro-batches per rank and step (gradient accumulation): global_batch / (micro_batch * dp).
  [[nodiscard]] std::int64_t num_micro_batches(const Layout& layout) const;
  [[nodiscard]] std::int64_t tokens_per_step() const { return global_batch * seq; }
};

/// Throws UsageError naming field, value, rule and remedy if a degree is out of range, if something
/// is asked for that is not built yet (ep > 1: refused by name), if a key of ZeRO is set with a
/// stage that does not know it, if ZeRO-2 or 3 are not to overlap their reductions, if the batch
/// does not divide (names the nearest valid global batches below and above), if 2 * cp does not
/// divide seq (names the nearest valid ones), if tp does not divide heads, kv_heads and ffn or is
/// above vocab (names the valid ones), or if sp is set with tp = 1 or with micro_batch * seq / cp
/// that tp does not divide (names the nearest valid ones). Whether the model has as many stages as
/// the schedule needs is checked by the Pipeline (program/pipeline.h).
void check_layout(const ModelSpec& spec, const Layout& layout, const Batch& batch);

/// One line, one grammar for plan, simulate, train --layout and metrics, e.g.
/// "pp=2 dp=2 cp=1 tp=1 sp=0 zero=1 mbs=4 schedule=interleaved:2 dp_sync=overlapped
/// recompute=none". Fields in this order, schedule only with pp > 1 and its ":chunks" only if they
/// are not 0; plus "cp_comm=all_gather" after cp, "ep=2" after tp, "dp_shard=2" after zero and
/// "bucket_mib=10" after dp_sync when they differ from the default, "reduce=micro_batch",
/// "reshard=never" and "prefetch=2" after dp_shard likewise, and "stages=3,3,2" after schedule when
/// they are set. Does not check ranges: that is check_layout's task.
[[nodiscard]] std::string layout_text(const Layout& layout, const Batch& batch);

/// Inverse of layout_text; `mbs` goes to `batch.micro_batch`. Fields may be in any order; one that
/// is left out keeps its value, but a schedule without ":chunks" has chunks = 0, and "stages=" has
/// none. Throws UsageError for unknown keys, repeated keys and bad values, naming key and nearest
/// valid key; `layout` and `batch` are then unchanged.
void parse_layout_text(std::string_view text, Layout& layout, Batch& batch);

/// Bytes of model state per rank for `num_parameters` under mixed-precision Adam, without padding:
/// 2 + 4 (bf16 parameter, fp32 gradient) + 12 (fp32 master, m, v) = 18 per parameter; ZeRO-1
/// divides the 12, ZeRO-2 also the gradients, ZeRO-3 also the parameters by dp (arXiv:1910.02054,
/// figure 1, with fp32 gradients). In fp32 the parameter is its own master: 4 + 4 + 8 = 16, of
/// which ZeRO-1 divides the 8. Where dp does not divide, the fullest rank's share.
struct StateBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t master = 0;
  std::int64_t moments = 0;
  [[nodiscard]] std::int64_t total() const { return parameters + gradients + master + moments; }
};
[[nodiscard]] StateBytes model_state_bytes(std::int64_t num_parameters, bool is_bf16, int zero,
                                           int dp);

}  // namespace trireme
