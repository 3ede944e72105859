// nanotron 2411b02 (2026-04-07): YAML for run_train.py. The loader (dacite, strict) refuses keys
// that its dataclasses in src/nanotron/config do not have, so only those without a default and
// those that say something are written.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"
#include "trireme/plan/launch/text.h"

namespace trireme::launch {
namespace {

constexpr std::string_view kName = "nanotron";
constexpr std::string_view kCommit = "2411b02";

std::string_view bool_text(bool value) {
  return value ? "true" : "false";
}

// Rules.

void check_parallelism(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  check_plain_pipeline(kName, layout);
  const std::int64_t micro_batches = request.batch.num_micro_batches(layout);
  // parallel/pipeline_parallel/engine.py, OneForwardOneBackwardPipelineEngine.
  if (layout.pp > 1 && layout.schedule == "1f1b" && micro_batches < layout.pp - 1) {
    refuse(kName, fmt::format("{} micro-batches with pp = {}", micro_batches, layout.pp),
           "1f1b needs at least pp - 1", "use a larger global_batch, or schedule = gpipe");
  }
  // config/config.py: optimizer.zero_stage; only the optimizer's state is sharded (optim/zero.py).
  if (layout.zero > 1) {
    refuse(kName, fmt::format("zero = {}", layout.zero), "it shards optimizer state only",
           "use zero = 1");
  }
  if (shard_degree(layout) != 1 && shard_degree(layout) != layout.dp) {
    refuse(kName, fmt::format("dp_shard = {}", layout.dp_shard), "it shards over all of dp",
           "use dp_shard = 0");
  }
  // config/parallelism_config.py: recompute_layer is whole layers.
  if (layout.recompute == Recompute::kSelective) {
    refuse(kName, "recompute = selective", "it recomputes whole layers or nothing",
           "use recompute = none; its attention keeps no scores");
  }
  // nn/attention.py: "ring_flash_triton" passes keys and values round a ring.
  if (layout.cp > 1 && layout.cp_comm != CpComm::kRing) {
    refuse(kName, "cp_comm = all_gather", "its context parallelism is a ring",
           "use cp_comm = ring");
  }
  if (request.batch.seq % layout.cp != 0) {
    refuse(kName, fmt::format("seq = {} with cp = {}", request.batch.seq, layout.cp),
           "must be a multiple of cp",
           fmt::format("use seq = {}", nearest_multiples(request.batch.seq, layout.cp)));
  }
  const std::int64_t tokens = request.batch.micro_batch * request.batch.seq / layout.cp;
  if (layout.sp && tokens % layout.tp != 0) {
    refuse(kName,
           fmt::format("micro_batch * seq / cp = {} with tp = {}, sp = 1", tokens, layout.tp),
           "must be a multiple of tp", "use another seq, or sp = 0");
  }
}

void check(const LaunchRequest& request) {
  check_llama(kName, request.spec, /*has_qkv_bias=*/true);  // models/qwen.py
  // models/llama.py, CausalSelfAttention; tensor_parallel/nn.py.
  check_divides(kName, {"tp", request.layout.tp},
                {{"heads", request.spec.heads},
                 {"kv_heads", request.spec.kv_heads},
                 {"ffn", request.spec.ffn}},
                "must divide them");
  check_parallelism(request);
  // models/llama.py: attention is flash_attn's, of 16 bits; no loss scaling for fp16.
  if (request.precision != ComputePrecision::kBf16) {
    refuse(kName, fmt::format("precision = {}", precision_name(request.precision)),
           "it trains in bf16", "use precision = bf16");
  }
}

std::vector<std::string> notes_of(const LaunchRequest& request) {
  std::vector<std::string> notes = {"Its AdamW decays norms, too."};
  if (request.spec.vocab % request.layout.tp != 0) {
    notes.emplace_back("The vocabulary is padded to a multiple of tp.");
  }
  if (!request.setting.data.empty() && request.setting.tokenizer.empty()) {
    notes.emplace_back("TOKENIZER stands for the tokenizer of the data.");
  }
  return notes;
}

// Sections.

std::string data_section(const LaunchRequest& request) {
  const LaunchSetting& setting = request.setting;
  const std::string tokenizer =
      setting.tokenizer.empty() ? "TOKENIZER" : std::string(setting.tokenizer);
  constexpr std::int64_t kMaxTwoByteVocab = 1 << 16;  // as the tokens of a Nanoset are written
  // Without a dataset: dummy_infinite_data_generator.
  const std::string dataset =
      setting.data.empty() ? " null\n"
                           : fmt::format(
                                 "\n      dataset_folder: {}\n      tokenizer_name: {}\n"
                                 "      token_size_in_bytes: {}\n      vocab_size: {}\n",
                                 quoted(setting.data), quoted(tokenizer),
                                 request.spec.vocab > kMaxTwoByteVocab ? 4 : 2, request.spec.vocab);
  const bool has_tokenizer = !setting.data.empty() || !setting.tokenizer.empty();
  return fmt::format(
      "data_stages:\n- name: training\n  start_training_step: 1\n  data:\n    dataset:{}"
      "    num_loading_workers: 1\n    seed: {}\n"
      "tokenizer:\n  tokenizer_name_or_path: {}\n",
      dataset, setting.seed, has_tokenizer ? quoted(tokenizer) : "null");
}

std::string model_section(const LaunchRequest& request) {
  const ModelSpec& spec = request.spec;
  // models/qwen.py has biases of q, k, v and context parallelism; models/llama.py has neither.
  const bool is_qwen = spec.qkv_bias || request.layout.cp > 1;
  constexpr double kInitStd = 0.02;  // examples/config_tiny_llama.yaml and HF's initializer_range
  return fmt::format(
      "model:\n  ddp_bucket_cap_mb: {}\n  dtype: bfloat16\n  init_method:\n    std: {}\n"
      "  make_vocab_size_divisible_by: 1\n  model_config:\n    {}: true\n"
      "    _attn_implementation: {}\n    attention_bias: {}\n    hidden_act: silu\n"
      "    hidden_size: {}\n    intermediate_size: {}\n    max_position_embeddings: {}\n"
      "    num_attention_heads: {}\n    num_hidden_layers: {}\n    num_key_value_heads: {}\n"
      "    rms_norm_eps: {}\n    rope_theta: {}\n    tie_word_embeddings: {}\n    vocab_size: {}\n",
      std::max<long long>(1, std::llround(request.layout.bucket_mib)), number(kInitStd),
      is_qwen ? "is_qwen2_config" : "is_llama_config",
      request.layout.cp > 1 ? "ring_flash_triton" : "flash_attention_2", bool_text(spec.qkv_bias),
      spec.hidden, spec.ffn, std::max(spec.max_seq, request.batch.seq), spec.heads, spec.layers,
      spec.kv_heads, number(spec.norm_eps), number(spec.rope_base), bool_text(spec.tied),
      spec.vocab);
}

std::string optimizer_section(const LaunchSetting& setting, const Layout& layout) {
  return fmt::format(
      "optimizer:\n  accumulate_grad_in_fp32: true\n  clip_grad: {}\n"
      "  learning_rate_scheduler:\n    learning_rate: {}\n    lr_decay_steps: {}\n"
      "    lr_decay_style: cosine\n    lr_warmup_steps: {}\n    lr_warmup_style: linear\n"
      "    min_decay_lr: {}\n"
      "  optimizer_factory:\n    adam_beta1: 0.9\n    adam_beta2: 0.95\n    adam_eps: {}\n"
      "    name: adamW\n    torch_adam_is_fused: true\n"
      "  weight_decay: {}\n  zero_stage: {}\n",
      setting.clip == 0 ? "null" : number(setting.clip), number(setting.lr),
      setting.steps - setting.warmup_steps, setting.warmup_steps, number(setting.min_lr),
      number(1e-8), number(setting.weight_decay), layout.zero);
}

std::string parallelism_section(const Layout& layout) {
  return fmt::format(
      "parallelism:\n  dp: {}\n  pp: {}\n  tp: {}\n  context_parallel_size: {}\n"
      "  expert_parallel_size: 1\n  pp_engine: {}\n  recompute_layer: {}\n"
      "  tp_linear_async_communication: {}\n  tp_mode: {}\n",
      layout.dp, layout.pp, layout.tp, layout.cp,
      layout.pp > 1 && layout.schedule == "gpipe" ? "afab" : "1f1b",
      bool_text(layout.recompute == Recompute::kFull), bool_text(layout.sp),
      layout.sp ? "REDUCE_SCATTER" : "ALL_REDUCE");
}

}  // namespace

LaunchFiles nanotron_files(const LaunchRequest& request) {
  check(request);
  const LaunchSetting& setting = request.setting;
  const std::string stem = file_stem(request.model_name);
  LaunchFiles files;
  files.config_name = stem + ".yaml";
  files.notes = notes_of(request);
  files.config = comment(kName, kCommit, request, files) +
                 fmt::format("checkpoints:\n  checkpoint_interval: {}\n  checkpoints_path: {}\n",
                             setting.steps, quoted("checkpoints/" + stem)) +
                 data_section(request) +
                 fmt::format("general:\n  project: trireme\n  run: {}\n  seed: {}\n", quoted(stem),
                             setting.seed) +
                 "logging:\n  iteration_step_info_interval: 1\n  log_level: info\n  "
                 "log_level_replica: info\n" +
                 model_section(request) + optimizer_section(setting, request.layout) +
                 parallelism_section(request.layout) +
                 fmt::format(
                     "tokens:\n  batch_accumulation_per_replica: {}\n  micro_batch_size: {}\n"
                     "  sequence_length: {}\n  train_steps: {}\n",
                     request.batch.num_micro_batches(request.layout), request.batch.micro_batch,
                     request.batch.seq, setting.steps);
  // run_train.py: "important for some distributed operations".
  files.command = torchrun_command(setting, "CUDA_DEVICE_MAX_CONNECTIONS=1 ",
                                   "run_train.py --config-file " + shell_word(files.config_name));
  return files;
}

}  // namespace trireme::launch
