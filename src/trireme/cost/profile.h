// What a framework does differently: which bytes it keeps and moves, which collectives it hides,
// and what its host costs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/cost/cluster.h"
#include "trireme/cost/quantity_file.h"

namespace trireme {

/// How layers are spread over the stages of a pipeline.
enum class StageSplit : std::uint8_t {
  kEven,        ///< as even as can be, earlier stages first
  kCumulative,  ///< a stage ends once it has its share of the summed cost, head included (nanotron)
  kBalanced,    ///< the most expensive stage costs least (program/pipeline.h)
};

struct Profile {
  std::string name;

  // Choices.
  StageSplit split = StageSplit::kEven;
  bool default_sp = false;
  int default_zero = 0;
  bool is_llama_like = true;  ///< what a row of sizes without a model's name stands for
  bool has_fused_attention = true;
  bool scatters_gradients = true;  ///< ZeRO-1 and up reduce-scatter them, instead of all-reducing
  bool scatters_messages = false;  ///< between nodes each tp rank sends its part, also without sp
  bool gathers_inputs_again = false;   ///< two more gathers per layer's backward pass under sp
  bool has_step_barrier = true;        ///< the optimizer of a stage waits for the gradients of all
  bool has_frames_per_chunk = false;   ///< memory in which each chunk has a place of its own
  bool has_sized_buckets = false;      ///< reduces in buckets of layout.bucket_mib
  bool can_put_off_reduction = false;  ///< ZeRO-2 and 3 reduce as often as layout.reduce says

  // Bytes that the device's memory moves for one layer of a micro-batch, forward and backward.
  double element_factor = 1;          ///< on all of the following, for kernels that are not fused
  double sequence_forward_bytes = 0;  ///< per token and hidden; tp divides them only under sp
  double sequence_backward_bytes = 0;
  double hidden_forward_bytes = 0;  ///< per token and hidden of the rank
  double hidden_backward_bytes = 0;
  double ffn_forward_bytes = 0;  ///< per token and ffn of the rank; half more when gated
  double ffn_backward_bytes = 0;
  double score_forward_bytes = 0;  ///< per score of plain attention
  double score_backward_bytes = 0;
  double accumulate_bytes = 0;  ///< per parameter and micro-batch
  double cast_bytes = 0;        ///< per token and (hidden + ffn), thrice, with fp8
  double logit_bytes = 0;       ///< per token and vocabulary entry of the rank
  double optimizer_bytes = 0;   ///< per parameter of the shard
  double attention_flops_per_second =
      0;  ///< most that its kernel reaches forward; 0 = the device's

  // Seconds of the host and what nothing hides.
  double layer_host_seconds = 0;       ///< of a layer and micro-batch, forward and backward
  double collective_host_seconds = 0;  ///< more, for each tensor-parallel collective
  double pipe_stall_seconds = 0;       ///< more per layer, micro-batch and tp rank where stages are
                                       ///< on different nodes
  double host_exponent = 1;            ///< of the smooth maximum of host and device
  double ends_seconds = 0;             ///< of a micro-batch: embedding and loss
  double ends_token_seconds = 0;       ///< and per token
  double step_seconds = 0;             ///< of a step, times 1 + log2(nodes)
  double tp_exposed = 1;               ///< share of tensor-parallel traffic that nothing hides, sp
  double cp_exposed = 1;
  double pipe_exposed = 1;  ///< share of a message between stages in which its ends do nothing else
  double pipe_bytes_per_second = 0;  ///< most that a message between stages reaches; 0 = the link
  double gradient_wire_bytes = 4;    ///< per parameter that is reduced
  double parameter_wire_bytes = 2;   ///< per parameter that ZeRO gathers
  double replicated_overlap = 0;     ///< share of the last backward pass that hides the reduction
  double sharded_overlap = 0;        ///< the same with ZeRO-1, also of a forward pass for gathers
  double tied_wire_bytes = 4;        ///< per entry of a tied table on two stages

  // Bytes kept in memory.
  double parameter_bytes = 2;
  double gradient_bytes = 4;
  double transient_gradient_bytes = 0;  ///< beside the former; never sharded
  double bucket_bytes = 0;              ///< per parameter with ZeRO-0 and dp > 1
  double optimizer_state_bytes = 12;
  double kept_sequence_bytes = 0;        ///< per token and hidden; tp divides them only under sp
  double kept_tp_bytes = 0;              ///< more, of the rank, with tp > 1
  double kept_query_bytes = 0;           ///< per token and query width of the rank
  double kept_key_value_bytes = 0;       ///< per token and width of keys (and as many of values)
  double kept_ffn_bytes = 0;             ///< per token and ffn of the rank
  double kept_gate_bytes = 0;            ///< more, when gated
  double dropped_sequence_bytes = 0;     ///< of the former, by selective recomputation of norms
  double dropped_ffn_bytes = 0;          ///< and of the activation function
  double kept_head_bytes = 0;            ///< per token and head of the rank: log-sum-exp
  double kept_score_bytes = 0;           ///< per score of plain attention
  double kept_gathered_bytes = 0;        ///< per token and hidden, the other ranks' parts of inputs
  double kept_gathered_logit_bytes = 0;  ///< per token and vocabulary entry, the other ranks' parts
  double kept_logit_bytes = 0;           ///< per token and vocabulary entry of the rank
  double context_bytes = 0;              ///< outside of the allocator
  double communicator_bytes = 0;         ///< for each axis that communicates
  double allocator_factor = 1;           ///< reserved by allocated
  double usable_share = 1;               ///< of the device's memory, for what is optional

  // Measured seconds of a step by predicted ones: 8 of 10 published runs lie between.
  double band_low = 0;  ///< 0 = no published runs
  double band_high = 0;

  QuantityFile file;  ///< every number with its source
};

[[nodiscard]] const QuantityRules& profile_rules();

/// InternalError unless `file` has been parsed with profile_rules().
[[nodiscard]] Profile profile_of(QuantityFile file);

/// A profile by the path of its file or by the name of a built-in one. A built-in profile may name
/// another that stands for it on older devices ("A100"), where its published runs were of an older
/// version. Throws as parse_quantity_file and quantity_file_source do.
[[nodiscard]] Profile read_profile(const std::string& name_or_path, const Cluster& cluster);

}  // namespace trireme
