#include "trireme/cost/memory.h"

#include <algorithm>

namespace trireme {
namespace {

bool keeps_scores(const Workload& workload, const Profile& profile) {
  return !profile.has_fused_attention && workload.layout.recompute == Recompute::kNone;
}

/// Of an activation.
double value_bytes(const Workload& workload) {
  return workload.precision == ComputePrecision::kFp32 ? 4 : 2;
}

/// Full recomputation keeps the input of each layer.
double input_bytes_per_token(const Workload& workload) {
  const double hidden = static_cast<double>(workload.model.hidden);
  return value_bytes(workload) * hidden / (workload.layout.sp ? workload.layout.tp : 1);
}

/// What the gradients of a layer's weights are computed from: inputs and output gradients of its
/// four products, and of its norms.
double weight_half_bytes_per_token(const Workload& workload) {
  constexpr double kHidden = 7;  // in: qkv, up; out: proj, down; norms: two gradients, one input
  const ModelShape& model = workload.model;
  const auto of_rank =
      static_cast<double>(model.q_width() + model.ffn + model.qkv_width() + model.up_width());
  const double sequence = kHidden * static_cast<double>(model.hidden);
  return value_bytes(workload) *
         (sequence / (workload.layout.sp ? workload.layout.tp : 1) + of_rank / workload.layout.tp);
}

double activation_bytes(const Workload& workload, const Profile& profile, const StageShare& share,
                        int rank) {
  constexpr double kOwnHalf = 0.5;  // of the micro-batch whose backward pass runs
  const double layers =
      share.layers * (profile.has_frames_per_chunk ? micro_batches_in_frames(workload, rank)
                                                   : micro_batches_in_flight(workload, rank));
  const double tokens = workload.micro_batch_tokens();
  const double kept = kept_bytes_per_token(workload, profile);
  const double halves = splits_backward(workload.layout)
                            ? share.layers * (weight_halves_in_flight(workload, rank) + kOwnHalf) *
                                  weight_half_bytes_per_token(workload)
                            : 0;
  const bool is_full = workload.layout.recompute == Recompute::kFull;
  return tokens * (layers * (is_full ? input_bytes_per_token(workload) : kept) + halves);
}

/// The layer that is being recomputed.
double recomputed_bytes(const Workload& workload, const Profile& profile, const StageShare& share) {
  if (workload.layout.recompute != Recompute::kFull || share.layers == 0) return 0;
  return workload.micro_batch_tokens() * kept_bytes_per_token(workload, profile);
}

}  // namespace

double stage_parameters(const Workload& workload, const StageShare& share) {
  const ModelShape& model = workload.model;
  const bool is_held_once = model.is_tied && share.has_embedding;
  const int tables = (share.has_embedding ? 1 : 0) + (share.has_head && !is_held_once ? 1 : 0);
  const double cut =
      static_cast<double>(share.layers * model.layer_matrix_elems() + tables * model.table_elems());
  const double whole =
      static_cast<double>(share.layers * model.layer_vector_elems() +
                          (share.has_embedding ? model.positions : 0) * model.hidden);
  return cut / workload.layout.tp + whole;
}

double kept_bytes_per_token(const Workload& workload, const Profile& profile) {
  const ModelShape& model = workload.model;
  const Layout& layout = workload.layout;
  const double hidden = static_cast<double>(model.hidden);
  const double scores = keeps_scores(workload, profile)
                            ? profile.kept_score_bytes * static_cast<double>(workload.batch.seq)
                            : 0;
  const bool drops = layout.recompute == Recompute::kSelective;
  const double of_rank =
      (layout.tp > 1 ? profile.kept_tp_bytes * hidden : 0) +
      profile.kept_query_bytes * static_cast<double>(model.q_width()) +
      2 * profile.kept_key_value_bytes * static_cast<double>(model.kv_heads * model.head_dim) +
      (profile.kept_ffn_bytes + (model.is_gated ? profile.kept_gate_bytes : 0) -
       (drops ? profile.dropped_ffn_bytes : 0)) *
          static_cast<double>(model.ffn) +
      (profile.kept_head_bytes + scores) * static_cast<double>(model.heads);
  const double sequence =
      (profile.kept_sequence_bytes - (drops ? profile.dropped_sequence_bytes : 0)) * hidden;
  return sequence / (layout.sp ? layout.tp : 1) + of_rank / layout.tp;
}

bool holds_gradients(const Workload& workload, const Profile& profile) {
  const Layout& layout = workload.layout;
  return profile.can_put_off_reduction && layout.zero >= 2 &&
         layout.reduce == GradientReduction::kStep && workload.num_micro_batches() > 1;
}

StageBytes stage_bytes(const Workload& workload, const Profile& profile, const StageShare& share,
                       int rank) {
  const Layout& layout = workload.layout;
  const double parameters = stage_parameters(workload, share);
  const double shards = layout.num_shards();
  const bool has_buckets = layout.zero == 0 && layout.dp * layout.cp > 1;
  const bool shards_gradients = layout.zero >= 2 && !holds_gradients(workload, profile);
  StageBytes bytes;
  bytes.parameters = profile.parameter_bytes * parameters / (layout.zero == 3 ? shards : 1);
  bytes.gradients = parameters * (profile.gradient_bytes / (shards_gradients ? shards : 1) +
                                  (layout.zero >= 2 ? 0 : profile.transient_gradient_bytes));
  bytes.optimizer = profile.optimizer_state_bytes * parameters / (layout.zero >= 1 ? shards : 1);
  bytes.activations = activation_bytes(workload, profile, share, rank);
  if (share.has_head) {
    bytes.logits = profile.kept_logit_bytes * workload.micro_batch_tokens() *
                   static_cast<double>(workload.model.vocab) / layout.tp;
  }
  bytes.buffers = recomputed_bytes(workload, profile, share) +
                  (has_buckets ? profile.bucket_bytes * parameters : 0);
  if (layout.zero >= 2 && shards > 1) {
    // Two layers gathered, one layer's gradient not yet reduced.
    const double layer = static_cast<double>(workload.model.layer_matrix_elems()) / layout.tp;
    bytes.buffers += layer * ((shards_gradients ? profile.gradient_wire_bytes : 0) +
                              (layout.zero == 3 ? 2 * profile.parameter_wire_bytes : 0));
  }
  return bytes;
}

double gathered_bytes(const Workload& workload, const Profile& profile, const StageShare& share,
                      int rank) {
  const Layout& layout = workload.layout;
  if (!layout.sp || layout.recompute == Recompute::kFull) return 0;
  const double layers = share.layers * micro_batches_in_flight(workload, rank);
  const double per_token =
      layers * profile.kept_gathered_bytes * static_cast<double>(workload.model.hidden) +
      (share.has_head ? profile.kept_gathered_logit_bytes : 0) *
          static_cast<double>(workload.model.vocab);
  return per_token * workload.micro_batch_tokens() * (layout.tp - 1) / layout.tp;
}

double overhead_bytes(const Workload& workload, const Profile& profile) {
  const Layout& layout = workload.layout;
  const int axes = (layout.tp > 1 ? 1 : 0) + (layout.pp > 1 ? 1 : 0) + (layout.cp > 1 ? 1 : 0) +
                   (layout.dp * layout.cp > 1 ? 1 : 0);
  return profile.context_bytes + profile.communicator_bytes * axes;
}

}  // namespace trireme
