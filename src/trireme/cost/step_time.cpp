#include "trireme/cost/step_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/units.h"
#include "trireme/cost/collectives.h"
#include "trireme/cost/kernels.h"
#include "trireme/cost/memory.h"

namespace trireme {
namespace {

/// Of one layer and micro-batch on one rank.
struct LayerSeconds {
  double forward = 0;   ///< device
  double backward = 0;  ///< device, with recomputation
  double weight = 0;    ///< of `backward`, gradients of weights
  double tp = 0;        ///< collectives that nothing hides
  double cp = 0;
  double host = 0;
};

/// Of the traffic of gradients and parameters over replicas.
struct ReplicaSeconds {
  double wire = 0;
  double shown = 0;  ///< of `wire`, what no computation hides
};

constexpr double kMatricesOfLayer = 4;  // as matrix_products() has them

double smooth_max(double a, double b, double exponent) {
  const double most = std::max(a, b);
  const double least = std::min(a, b);
  if (least <= 0) return most;
  return most * std::pow(1 + std::pow(least / most, exponent), 1 / exponent);
}

class StepPricer {
 public:
  StepPricer(const Workload& workload, const Cluster& cluster, const Profile& profile)
      : workload_(workload),
        model_(workload.model),
        layout_(workload.layout),
        cluster_(cluster),
        device_(cluster.device),
        profile_(profile),
        places_(places_of(workload.layout, cluster.node_devices)),
        tokens_(workload.micro_batch_tokens()),
        num_nodes_(
            std::max(1.0, static_cast<double>(workload.layout.world()) / cluster.node_devices)) {}

  [[nodiscard]] PassTimes passes() const;
  [[nodiscard]] StepSeconds price(const std::vector<StageShare>& shares, const PassTimes& times,
                                  const PipelineSeconds& pipeline) const;
  void price_replicas(const std::vector<StageShare>& shares, const PassTimes& times,
                      StepSeconds& seconds) const;

 private:
  [[nodiscard]] double hidden() const { return static_cast<double>(model_.hidden); }
  [[nodiscard]] double of_rank(std::int64_t width) const {
    return static_cast<double>(width) / layout_.tp;
  }
  [[nodiscard]] double vocab_of_rank() const { return std::ceil(of_rank(model_.vocab)); }
  [[nodiscard]] double shards() const { return layout_.num_shards(); }
  [[nodiscard]] bool gathers_layers() const { return layout_.zero >= 2 && shards() > 1; }

  [[nodiscard]] ProductSeconds matrix_products() const;
  [[nodiscard]] ProductSeconds attention() const;
  [[nodiscard]] ProductSeconds element_wise() const;
  [[nodiscard]] double tp_collective() const;
  [[nodiscard]] double cp_exchange() const;
  [[nodiscard]] LayerSeconds layer() const;
  [[nodiscard]] double sharded_excess(const LayerSeconds& layer) const;
  [[nodiscard]] PassSeconds head_passes() const;
  [[nodiscard]] double embedding_seconds() const;
  [[nodiscard]] double stage_message() const;
  [[nodiscard]] double wire_seconds(Collective collective, double bytes) const {
    return collective_seconds(cluster_, collective, places_.shards, bytes);
  }
  /// Sums the shards of the copies that hybrid sharding has; 0 without it.
  [[nodiscard]] double sum_of_copies(double elems) const {
    return collective_seconds(cluster_, Collective::kAllReduce, places_.copies,
                              profile_.gradient_wire_bytes * elems / shards());
  }
  [[nodiscard]] ReplicaSeconds replica_seconds(double elems, double layers, double forward,
                                               double backward) const;

  const Workload& workload_;
  const ModelShape& model_;
  const Layout& layout_;
  const Cluster& cluster_;
  const Device& device_;
  const Profile& profile_;
  LayoutPlaces places_;
  double tokens_;
  double num_nodes_;
};

ProductSeconds StepPricer::matrix_products() const {
  ProductSeconds total;
  const auto add = [&](double outputs, double inputs) {
    const ProductSeconds one =
        weight_product_seconds(device_, workload_.precision, tokens_, outputs, inputs);
    total.forward += one.forward;
    total.backward += one.backward;
    total.weight += one.weight;
  };
  add(of_rank(model_.qkv_width()), hidden());
  add(hidden(), of_rank(model_.q_width()));
  add(of_rank(model_.up_width()), hidden());
  add(hidden(), of_rank(model_.ffn));
  return total;
}

ProductSeconds StepPricer::attention() const {
  const AttentionShape shape{.sequences = static_cast<double>(workload_.batch.micro_batch),
                             .seq = static_cast<double>(workload_.batch.seq),
                             .heads = static_cast<double>(model_.heads) / layout_.tp,
                             .head_dim = static_cast<double>(model_.head_dim)};
  ProductSeconds seconds =
      profile_.has_fused_attention
          ? fused_attention_seconds(device_, workload_.precision,
                                    profile_.attention_flops_per_second, shape)
          : plain_attention_seconds(device_, workload_.precision, shape,
                                    profile_.score_forward_bytes * profile_.element_factor,
                                    profile_.score_backward_bytes * profile_.element_factor);
  seconds.forward /= layout_.cp;
  seconds.backward /= layout_.cp;
  return seconds;
}

ProductSeconds StepPricer::element_wise() const {
  const double gated = model_.is_gated ? 1.5 : 1;
  const double sequence = hidden() / (layout_.sp ? layout_.tp : 1);
  const double ffn = gated * of_rank(model_.ffn);
  const double cast = workload_.precision == ComputePrecision::kFp8
                          ? profile_.cast_bytes * (of_rank(model_.hidden) + of_rank(model_.ffn))
                          : 0;
  const auto seconds = [&](double of_sequence, double of_hidden, double of_ffn, double casts) {
    const double bytes =
        profile_.element_factor *
            (of_sequence * sequence + of_hidden * of_rank(model_.hidden) + of_ffn * ffn) +
        casts * cast;
    return bytes_seconds(device_, tokens_ * bytes);
  };
  const double accumulation =
      bytes_seconds(device_, profile_.accumulate_bytes * of_rank(model_.layer_matrix_elems()));
  return {.forward = seconds(profile_.sequence_forward_bytes, profile_.hidden_forward_bytes,
                             profile_.ffn_forward_bytes, 1),
          .backward = seconds(profile_.sequence_backward_bytes, profile_.hidden_backward_bytes,
                              profile_.ffn_backward_bytes, 2) +
                      accumulation,
          .weight = accumulation};
}

/// As much as an all-reduce of the residual stream, or with sp a gather and a scatter.
double StepPricer::tp_collective() const {
  if (layout_.tp == 1) return 0;
  const double bytes = 2 * tokens_ * hidden();
  if (!layout_.sp) {
    return collective_seconds(cluster_, Collective::kAllReduce, places_.tp, bytes);
  }
  return profile_.tp_exposed *
         (collective_seconds(cluster_, Collective::kAllGather, places_.tp, bytes) +
          collective_seconds(cluster_, Collective::kReduceScatter, places_.tp, bytes));
}

/// Keys and values go round, forward, and with their gradients backward.
double StepPricer::cp_exchange() const {
  if (layout_.cp == 1) return 0;
  constexpr double kPasses = 3;
  const double bytes = 2 * 2 * tokens_ * of_rank(model_.kv_heads * model_.head_dim);
  return profile_.cp_exposed * kPasses * (layout_.cp - 1) *
         message_seconds(cluster_, places_.cp.nodes() > 1, bytes);
}

LayerSeconds StepPricer::layer() const {
  const ProductSeconds products = matrix_products();
  const ProductSeconds core = attention();
  const ProductSeconds elements = element_wise();
  LayerSeconds result;
  result.forward = products.forward + core.forward + elements.forward;
  result.backward = products.backward + core.backward + elements.backward;
  result.weight = products.weight + elements.weight;
  const bool is_full = layout_.recompute == Recompute::kFull;
  if (is_full) result.backward += result.forward;
  if (layout_.recompute == Recompute::kSelective) {
    // The attention core (Korthikanti et al. 2022), or norms and activation functions.
    result.backward += profile_.dropped_ffn_bytes > 0 ? elements.forward : core.forward;
  }
  const double collectives = layout_.tp == 1 ? 0 : 4 + (is_full ? 2 : 0);
  const double again = layout_.sp && profile_.gathers_inputs_again ? 1 : 0;
  result.tp = (collectives + again) * tp_collective();
  result.cp = cp_exchange();
  result.host = profile_.layer_host_seconds * (is_full ? 4.0 / 3.0 : 1) +
                collectives * profile_.collective_host_seconds;
  if (places_.pipe_leaves_node && layout_.tp > 1) {
    result.host += profile_.pipe_stall_seconds * layout_.tp;
  }
  return result;
}

/// What gathers of a layer's parameters and the reduction of its gradients take beyond its
/// computation, pass by pass, and the slowdown of what runs beside them.
double StepPricer::sharded_excess(const LayerSeconds& layer) const {
  if (!gathers_layers()) return 0;
  const double elems = of_rank(model_.layer_matrix_elems());
  const auto micro_batches = static_cast<double>(workload_.num_micro_batches());
  const double gather = wire_seconds(Collective::kAllGather, profile_.parameter_wire_bytes * elems);
  const double reduce =
      wire_seconds(Collective::kReduceScatter, profile_.gradient_wire_bytes * elems);
  const bool is_3 = layout_.zero == 3;
  const bool is_once_a_step =
      holds_gradients(workload_, profile_) || (!is_3 && layout_.reduce == GradientReduction::kStep);
  const double forward_wire = is_3 ? gather : gather / micro_batches;
  const double backward_wire = (is_3 && layout_.reshards() ? gather : 0) +
                               (is_once_a_step ? reduce / micro_batches : reduce);
  const auto excess = [&](double compute, double wire) {
    return std::max(wire - compute, 0.0) +
           cluster_.overlap_compute_slowdown * std::min(wire, compute);
  };
  return excess(layer.forward, forward_wire) + excess(layer.backward, backward_wire);
}

PassSeconds StepPricer::head_passes() const {
  const double vocab = vocab_of_rank();
  const ProductSeconds products = weight_product_seconds(
      device_,
      workload_.precision == ComputePrecision::kFp8 ? ComputePrecision::kBf16 : workload_.precision,
      tokens_, vocab, hidden());
  const double loss =
      bytes_seconds(device_, profile_.logit_bytes * tokens_ * vocab) + profile_.ends_seconds / 2;
  const double accumulation = bytes_seconds(device_, profile_.accumulate_bytes * vocab * hidden());
  return {.forward = products.forward + loss / 2,
          .input = products.backward - products.weight + loss / 2,
          .weight = products.weight + accumulation};
}

double StepPricer::embedding_seconds() const {
  constexpr double kBytes = 20;  // per token and hidden: rows read and written, both passes
  return bytes_seconds(device_, kBytes * tokens_ * hidden()) +
         profile_.ends_token_seconds * tokens_ + profile_.ends_seconds / 2;
}

/// An activation to the next stage, or its gradient back.
double StepPricer::stage_message() const {
  if (layout_.pp == 1) return 0;
  const bool is_part = layout_.sp || (profile_.scatters_messages && places_.pipe_leaves_node);
  const double bytes = 2 * tokens_ * hidden() / (is_part ? layout_.tp : 1);
  double seconds = message_seconds(cluster_, places_.pipe_leaves_node, bytes);
  if (profile_.pipe_bytes_per_second > 0) {
    seconds = std::max(seconds, bytes / profile_.pipe_bytes_per_second);
  }
  return seconds;
}

PassTimes StepPricer::passes() const {
  const LayerSeconds one = layer();
  const double device = one.forward + one.backward + one.tp + one.cp;
  const double bound = smooth_max(device, one.host, profile_.host_exponent) + sharded_excess(one);
  const bool is_full = layout_.recompute == Recompute::kFull;
  // Collectives of a forward pass, of a backward pass and of what it recomputes are alike; keys and
  // values go round once forward, and with their gradients backward.
  const double forward = one.forward + one.tp / (is_full ? 3 : 2) + one.cp / 3;
  const double stretch = bound / device;
  PassTimes times;
  times.layer.forward = stretch * forward;
  times.layer.weight = stretch * one.weight;
  times.layer.input = bound - times.layer.forward - times.layer.weight;
  times.head = head_passes();
  const double collective = tp_collective();
  times.head.forward += collective / 2;
  times.head.input += collective / 2;
  const double embedding = (embedding_seconds() + collective) / 2;
  times.embedding = {.forward = embedding, .weight = embedding};
  const double message = stage_message();
  times.message = profile_.pipe_exposed * message;
  times.latency = (1 - profile_.pipe_exposed) * message;
  times.tp_share = one.tp / bound;
  times.cp_share = one.cp / bound;
  times.layer_forward_share = one.forward / (one.forward + one.backward);
  return times;
}

PipelineSeconds closed_form(const Workload& workload, const PassTimes& times,
                            const std::vector<StageShare>& shares) {
  const int chunks = std::max(workload.layout.chunks, 1);
  PipelineSeconds pipeline;
  double slowest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const StageShare& share = shares[i];
    const bool is_end = i == 0 || i + 1 == shares.size();
    const double wire = 2 * times.message * chunks * (is_end ? 0.5 : 1);
    const double seconds = share.layers * times.layer.total() +
                           (share.has_head ? times.head.total() : 0) +
                           (share.has_embedding ? times.embedding.total() : 0) + wire;
    sum += seconds;
    if (seconds <= slowest) continue;
    slowest = seconds;
    pipeline.messages = wire;
  }
  const auto micro_batches = static_cast<double>(workload.num_micro_batches());
  pipeline.busy = micro_batches * slowest;
  pipeline.messages *= micro_batches;
  const auto hops = static_cast<double>(chunks * shares.size() - 1);
  pipeline.idle = (sum - slowest) * bubble_share(workload.layout) + 2 * hops * times.latency;
  return pipeline;
}

StepSeconds StepPricer::price(const std::vector<StageShare>& shares, const PassTimes& times,
                              const PipelineSeconds& pipeline) const {
  StepSeconds seconds;
  const double of_layers = pipeline.busy - pipeline.messages;
  seconds.pp = pipeline.messages;
  seconds.tp = of_layers * times.tp_share;
  seconds.cp = of_layers * times.cp_share;
  seconds.compute = of_layers - seconds.tp - seconds.cp;
  seconds.bubble = pipeline.idle;
  price_replicas(shares, times, seconds);
  seconds.fixed = profile_.step_seconds * (1 + std::log2(num_nodes_));
  const double slower = 1 + cluster_.straggler;
  seconds.compute *= slower;
  seconds.bubble *= slower;
  return seconds;
}

/// `elems` of a stage with so many layers, hidden behind its passes over the last micro-batch, and
/// the first. The last bucket, or the last layer where buckets have no size, is never hidden.
ReplicaSeconds StepPricer::replica_seconds(double elems, double layers, double forward,
                                           double backward) const {
  const double gradient_bytes = profile_.gradient_wire_bytes * elems;
  const bool is_cut = profile_.has_sized_buckets && layout_.bucket_mib > 0;
  // A bucket has whole tensors: as many as a layer has matrices are the most.
  const double buckets =
      is_cut ? std::clamp(std::ceil(gradient_bytes / (layout_.bucket_mib * kGib / 1024)), 1.0,
                          kMatricesOfLayer * layers)
             : 1;
  ReplicaSeconds seconds;
  const auto add = [&](double bucket, double hides) {
    const double wire = buckets * bucket;
    const double last = is_cut ? bucket : wire / layers;
    seconds.wire += wire;
    seconds.shown += hides > 0 ? std::max(wire - hides, last) : wire;
  };
  if (layout_.zero == 0 || shards() == 1) {
    add(wire_seconds(Collective::kAllReduce, gradient_bytes / buckets),
        profile_.replicated_overlap * backward);
    return seconds;
  }
  const Collective reduction =
      profile_.scatters_gradients ? Collective::kReduceScatter : Collective::kAllReduce;
  add(wire_seconds(reduction, gradient_bytes / buckets) + sum_of_copies(elems / buckets),
      profile_.sharded_overlap * backward);
  add(wire_seconds(Collective::kAllGather, profile_.parameter_wire_bytes * elems / buckets),
      profile_.sharded_overlap * forward);
  return seconds;
}

/// Gradients and parameters over the replicas, tied tables over the pipeline, the optimizer.
void StepPricer::price_replicas(const std::vector<StageShare>& shares, const PassTimes& times,
                                StepSeconds& seconds) const {
  const double first = shares.front().layers * times.layer.total();
  const double forward = first * times.layer_forward_share;
  const double backward = first * (1 - times.layer_forward_share);
  double elems = 0;
  for (const StageShare& share : shares) {
    elems = std::max(elems, stage_parameters(workload_, share));
  }
  ReplicaSeconds replicas;
  if (gathers_layers()) {
    // Layers are priced with their passes; the sum over copies follows the last reduction.
    const double table = static_cast<double>(model_.table_elems()) / layout_.tp;
    const double once =
        wire_seconds(Collective::kAllGather, 2 * profile_.parameter_wire_bytes * table) +
        wire_seconds(Collective::kReduceScatter, profile_.gradient_wire_bytes * table);
    replicas.wire = replicas.shown =
        once * (layout_.zero == 3 ? static_cast<double>(workload_.num_micro_batches()) : 1) +
        sum_of_copies(elems);
  } else {
    replicas = replica_seconds(elems, std::max(1, shares.front().layers), forward, backward);
  }
  seconds.dp =
      replicas.shown + cluster_.overlap_compute_slowdown * (replicas.wire - replicas.shown);
  if (model_.is_tied && layout_.pp > 1) {
    const double bytes =
        profile_.tied_wire_bytes * static_cast<double>(model_.table_elems()) / layout_.tp;
    seconds.pp += message_seconds(cluster_, places_.pipe_leaves_node, bytes);
  }
  seconds.optimizer =
      bytes_seconds(device_, profile_.optimizer_bytes * elems / (layout_.zero >= 1 ? shards() : 1));
}

}  // namespace

PassTimes pass_times(const Workload& workload, const Cluster& cluster, const Profile& profile) {
  return StepPricer(workload, cluster, profile).passes();
}

StepSeconds step_seconds(const Workload& workload, const Cluster& cluster, const Profile& profile,
                         const std::vector<StageShare>& shares) {
  const StepPricer pricer(workload, cluster, profile);
  const PassTimes times = pricer.passes();
  return pricer.price(shares, times, closed_form(workload, times, shares));
}

StepSeconds step_seconds(const Workload& workload, const Cluster& cluster, const Profile& profile,
                         const std::vector<StageShare>& shares, const PassTimes& times,
                         const PipelineSeconds& pipeline) {
  return StepPricer(workload, cluster, profile).price(shares, times, pipeline);
}

double best_bucket_mib(const Workload& workload, const Cluster& cluster, const Profile& profile,
                       const std::vector<StageShare>& shares) {
  Workload tried = workload;
  const StepPricer pricer(tried, cluster, profile);
  const PassTimes times = pricer.passes();
  double best = Layout{}.bucket_mib;
  double least = std::numeric_limits<double>::infinity();
  for (const double factor : {1, 2, 4, 8, 16, 32, 64}) {
    tried.layout.bucket_mib = factor * Layout{}.bucket_mib;
    StepSeconds seconds;
    pricer.price_replicas(shares, times, seconds);
    if (seconds.dp >= least) continue;
    least = seconds.dp;
    best = tried.layout.bucket_mib;
  }
  return best;
}

}  // namespace trireme
