#include "trireme/cost/profile.h"

#include <array>
#include <utility>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

struct Field {
  std::string_view key;
  std::string_view unit;
  double Profile::*member;
};

constexpr std::array kFields = {
    Field{"moved.element_factor", "1", &Profile::element_factor},
    Field{"moved.sequence_forward_bytes", "B", &Profile::sequence_forward_bytes},
    Field{"moved.sequence_backward_bytes", "B", &Profile::sequence_backward_bytes},
    Field{"moved.hidden_forward_bytes", "B", &Profile::hidden_forward_bytes},
    Field{"moved.hidden_backward_bytes", "B", &Profile::hidden_backward_bytes},
    Field{"moved.ffn_forward_bytes", "B", &Profile::ffn_forward_bytes},
    Field{"moved.ffn_backward_bytes", "B", &Profile::ffn_backward_bytes},
    Field{"moved.score_forward_bytes", "B", &Profile::score_forward_bytes},
    Field{"moved.score_backward_bytes", "B", &Profile::score_backward_bytes},
    Field{"moved.accumulate_bytes", "B", &Profile::accumulate_bytes},
    Field{"moved.cast_bytes", "B", &Profile::cast_bytes},
    Field{"moved.logit_bytes", "B", &Profile::logit_bytes},
    Field{"moved.optimizer_bytes", "B", &Profile::optimizer_bytes},
    Field{"moved.attention_flops_per_second", "FLOP/s", &Profile::attention_flops_per_second},
    Field{"time.layer_host_seconds", "s", &Profile::layer_host_seconds},
    Field{"time.collective_host_seconds", "s", &Profile::collective_host_seconds},
    Field{"time.pipe_stall_seconds", "s", &Profile::pipe_stall_seconds},
    Field{"time.host_exponent", "1", &Profile::host_exponent},
    Field{"time.ends_seconds", "s", &Profile::ends_seconds},
    Field{"time.ends_token_seconds", "s", &Profile::ends_token_seconds},
    Field{"time.step_seconds", "s", &Profile::step_seconds},
    Field{"time.tp_exposed", "1", &Profile::tp_exposed},
    Field{"time.cp_exposed", "1", &Profile::cp_exposed},
    Field{"time.pipe_bytes_per_second", "B/s", &Profile::pipe_bytes_per_second},
    Field{"time.gradient_wire_bytes", "B", &Profile::gradient_wire_bytes},
    Field{"time.parameter_wire_bytes", "B", &Profile::parameter_wire_bytes},
    Field{"time.replicated_overlap", "1", &Profile::replicated_overlap},
    Field{"time.sharded_overlap", "1", &Profile::sharded_overlap},
    Field{"time.tied_wire_bytes", "B", &Profile::tied_wire_bytes},
    Field{"memory.parameter_bytes", "B", &Profile::parameter_bytes},
    Field{"memory.gradient_bytes", "B", &Profile::gradient_bytes},
    Field{"memory.transient_gradient_bytes", "B", &Profile::transient_gradient_bytes},
    Field{"memory.bucket_bytes", "B", &Profile::bucket_bytes},
    Field{"memory.optimizer_state_bytes", "B", &Profile::optimizer_state_bytes},
    Field{"memory.kept_sequence_bytes", "B", &Profile::kept_sequence_bytes},
    Field{"memory.kept_tp_bytes", "B", &Profile::kept_tp_bytes},
    Field{"memory.kept_query_bytes", "B", &Profile::kept_query_bytes},
    Field{"memory.kept_key_value_bytes", "B", &Profile::kept_key_value_bytes},
    Field{"memory.kept_ffn_bytes", "B", &Profile::kept_ffn_bytes},
    Field{"memory.kept_gate_bytes", "B", &Profile::kept_gate_bytes},
    Field{"memory.kept_head_bytes", "B", &Profile::kept_head_bytes},
    Field{"memory.kept_score_bytes", "B", &Profile::kept_score_bytes},
    Field{"memory.kept_gathered_bytes", "B", &Profile::kept_gathered_bytes},
    Field{"memory.kept_gathered_logit_bytes", "B", &Profile::kept_gathered_logit_bytes},
    Field{"memory.kept_logit_bytes", "B", &Profile::kept_logit_bytes},
    Field{"memory.context_bytes", "B", &Profile::context_bytes},
    Field{"memory.communicator_bytes", "B", &Profile::communicator_bytes},
    Field{"memory.allocator_factor", "1", &Profile::allocator_factor},
    Field{"memory.usable_share", "1", &Profile::usable_share},
};

constexpr std::array kOptionalFields = {
    Field{"time.pipe_exposed", "1", &Profile::pipe_exposed},
    Field{"memory.dropped_sequence_bytes", "B", &Profile::dropped_sequence_bytes},
    Field{"memory.dropped_ffn_bytes", "B", &Profile::dropped_ffn_bytes},
    Field{"band.low", "1", &Profile::band_low},
    Field{"band.high", "1", &Profile::band_high},
};

/// The rule of a number: shares are at most 1, the exponent keeps the maximum smooth, and nothing
/// is so large that times and bytes leave what a double can hold.
QuantityRule rule_of(const Field& field, bool is_optional) {
  QuantityRule rule{.key = field.key, .unit = field.unit, .max = 1e18, .is_optional = is_optional};
  for (double Profile::*const share :
       {&Profile::tp_exposed, &Profile::cp_exposed, &Profile::pipe_exposed,
        &Profile::replicated_overlap, &Profile::sharded_overlap, &Profile::usable_share}) {
    if (field.member == share) rule.max = 1;
  }
  if (field.member == &Profile::host_exponent) {
    rule.min = 0.5;
    rule.max = 100;
  }
  if (field.member == &Profile::allocator_factor) {
    rule.min = 1;
    rule.max = 10;
  }
  if (field.unit == "s") rule.max = 3600;
  return rule;
}

bool is_yes(const QuantityFile& file, std::string_view key) {
  return file.text(key) == "yes";
}

StageSplit split_of(std::string_view name) {
  if (name == "even") return StageSplit::kEven;
  return name == "cumulative" ? StageSplit::kCumulative : StageSplit::kBalanced;
}

}  // namespace

const QuantityRules& profile_rules() {
  static const QuantityRules rules = [] {
    const std::vector<std::string_view> yes_or_no = {"yes", "no"};
    QuantityRules result{
        .what = "profile",
        .texts = {{.key = "name"},
                  {.key = "on_a100", .is_optional = true},
                  {.key = "split", .words = {"even", "cumulative", "balanced"}},
                  {.key = "sequence_parallel", .words = yes_or_no},
                  {.key = "zero", .words = {"0", "1", "2", "3"}},
                  {.key = "family", .words = {"llama", "gpt"}},
                  {.key = "fused_attention", .words = yes_or_no},
                  {.key = "scatters_gradients", .words = yes_or_no},
                  {.key = "scatters_messages", .words = yes_or_no},
                  {.key = "gathers_inputs_again", .words = yes_or_no},
                  {.key = "step_barrier", .words = yes_or_no, .is_optional = true},
                  {.key = "frames_per_chunk", .words = yes_or_no, .is_optional = true},
                  {.key = "sized_buckets", .words = yes_or_no, .is_optional = true},
                  {.key = "step_reduction", .words = yes_or_no, .is_optional = true}},
        .quantities = {},
        .tables = {}};
    for (const Field& field : kFields) {
      result.quantities.push_back(rule_of(field, false));
    }
    for (const Field& field : kOptionalFields) {
      result.quantities.push_back(rule_of(field, true));
    }
    return result;
  }();
  return rules;
}

Profile profile_of(QuantityFile file) {
  Profile result;
  result.name = file.text("name");
  result.split = split_of(file.text("split"));
  result.default_sp = is_yes(file, "sequence_parallel");
  result.default_zero = file.text("zero").front() - '0';
  result.is_llama_like = file.text("family") == "llama";
  result.has_fused_attention = is_yes(file, "fused_attention");
  result.scatters_gradients = is_yes(file, "scatters_gradients");
  result.scatters_messages = is_yes(file, "scatters_messages");
  result.gathers_inputs_again = is_yes(file, "gathers_inputs_again");
  result.has_step_barrier = !file.texts.contains("step_barrier") || is_yes(file, "step_barrier");
  const auto is_yes_at_all = [&](std::string_view key) {
    return file.texts.contains(std::string(key)) && is_yes(file, key);
  };
  result.has_frames_per_chunk = is_yes_at_all("frames_per_chunk");
  result.has_sized_buckets = is_yes_at_all("sized_buckets");
  result.can_put_off_reduction = is_yes_at_all("step_reduction");
  for (const Field& field : kFields) result.*field.member = file.value(field.key);
  for (const Field& field : kOptionalFields) {
    result.*field.member = file.value_or(field.key, result.*field.member);
  }
  result.file = std::move(file);
  return result;
}

Profile read_profile(const std::string& name_or_path, const Cluster& cluster) {
  const auto read = [](const std::string& name) {
    return profile_of(
        parse_quantity_file(quantity_file_source(name, "profiles"), name, profile_rules()));
  };
  Profile profile = read(name_or_path);
  const auto older = profile.file.texts.find("on_a100");
  if (older == profile.file.texts.end() || !cluster.device_name.starts_with("A100")) return profile;
  return read(older->second);
}

}  // namespace trireme
