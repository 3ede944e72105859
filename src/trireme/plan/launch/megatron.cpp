// Megatron-LM d98e8a6 (2026-08-22): arguments of pretrain_gpt.py, as a bash array.
// Options are made from the fields of its dataclasses and in training/arguments.py.
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/base/units.h"
#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"
#include "trireme/plan/launch/text.h"

namespace trireme::launch {
namespace {

constexpr std::string_view kName = "megatron";
constexpr std::string_view kCommit = "d98e8a6";

using Lines = std::vector<std::string>;

template <typename... Args>
void add(Lines& lines, fmt::format_string<Args...> format, Args&&... args) {
  lines.push_back(fmt::format(format, std::forward<Args>(args)...));
}

// Rules.

void check_heads(const ModelSpec& spec, const Layout& layout) {
  check_divides(kName, {"tp", layout.tp}, {{"heads", spec.heads}, {"ffn", spec.ffn}},
                "must divide them (tensor_parallel/layers.py, divide)");
  // core/transformer/attention.py:353: fewer key/value heads than tp are repeated.
  if (spec.kv_heads % layout.tp != 0 && layout.tp % spec.kv_heads != 0) {
    refuse(kName, fmt::format("tp = {} with kv_heads = {}", layout.tp, spec.kv_heads),
           "one must divide the other",
           fmt::format("use tp = {}", nearest_divisors(spec.kv_heads, layout.tp)));
  }
}

void check_sequence(const Layout& layout, const Batch& batch) {
  const std::int64_t pieces = layout.cp > 1 ? 2 * std::int64_t{layout.cp} : 1;
  // Zigzag: rank i of cp has chunks i and 2 cp - 1 - i.
  if (batch.seq % pieces != 0) {
    refuse(kName, fmt::format("seq = {} with cp = {}", batch.seq, layout.cp),
           fmt::format("must be a multiple of 2 * cp = {}", pieces),
           fmt::format("use seq = {}", nearest_multiples(batch.seq, pieces)));
  }
  // Sequence parallelism cuts the first dimension, seq / cp, over tp.
  if (layout.sp && (batch.seq / layout.cp) % layout.tp != 0) {
    refuse(
        kName, fmt::format("seq / cp = {} with tp = {}, sp = 1", batch.seq / layout.cp, layout.tp),
        "must be a multiple of tp",
        fmt::format(
            "use seq = {}",
            nearest_multiples(batch.seq, std::lcm(pieces, std::int64_t{layout.cp} * layout.tp))));
  }
}

void check_layers(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  const std::int64_t num_stages = std::int64_t{layout.pp} * num_chunks(layout);
  const std::int64_t layers = request.spec.layers;
  if (layout.stages.empty()) {
    if (layers % num_stages == 0) return;
    refuse(kName, fmt::format("layers = {} with {} stages", layers, num_stages),
           "must be a multiple of them where stages are not given (arguments.py)",
           "give stages, layers of each");
  }
  const std::int64_t sum =
      std::accumulate(layout.stages.begin(), layout.stages.end(), std::int64_t{0});
  if (std::ssize(layout.stages) != num_stages || sum != layers) {
    refuse(kName, fmt::format("stages = {}", fmt::join(layout.stages, ", ")),
           fmt::format("must be {} numbers that sum to layers = {}", num_stages, layers),
           "correct them, or leave them out");
  }
}

/// pipeline_parallel/schedules.py:1161-1180: a group is from pp to all micro-batches, and what is
/// left over after groups is nothing, or pp or more. The least one.
std::int64_t interleaving_group(std::int64_t pp, std::int64_t micro_batches) {
  std::int64_t group = pp;
  while (micro_batches % group != 0 && micro_batches % group < pp) ++group;
  return group;
}

void check_pipeline(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  if (layout.schedule != "1f1b" && layout.schedule != "interleaved") {
    refuse(kName, fmt::format("schedule = \"{}\"", layout.schedule),
           "its pipelines know 1f1b and interleaved only", "use schedule = 1f1b");
  }
  const bool is_interleaved = layout.schedule == "interleaved";
  if (is_interleaved ? num_chunks(layout) < 2 : num_chunks(layout) != 1) {
    refuse(kName, fmt::format("chunks = {} with schedule = \"{}\"", layout.chunks, layout.schedule),
           is_interleaved ? "must be at least 2" : "must be 1", "correct chunks");
  }
  const std::int64_t micro_batches = request.batch.num_micro_batches(layout);
  if (is_interleaved && micro_batches < layout.pp) {
    refuse(kName, fmt::format("{} micro-batches with pp = {}", micro_batches, layout.pp),
           "the interleaved schedule needs at least pp", "use a larger global_batch");
  }
  // examples/multimodal_dev, PR #6081 (2026-08-11): FSDP and pipelines exclude each other.
  if (layout.zero >= 2) {
    refuse(kName, fmt::format("zero = {} with pp = {}", layout.zero, layout.pp),
           "its FSDP knows no pipelines", "use zero = 1, or pp = 1");
  }
  check_layers(request);
}

void check(const LaunchRequest& request) {
  check_heads(request.spec, request.layout);
  check_sequence(request.layout, request.batch);
  if (request.layout.pp > 1) check_pipeline(request);
  if (!request.spec.is_llama() && request.batch.seq > request.spec.max_seq) {
    refuse(kName,
           fmt::format("seq = {} with max_seq = {}", request.batch.seq, request.spec.max_seq),
           "a learned position for each token", fmt::format("use seq = {}", request.spec.max_seq));
  }
}

// Arguments.

std::string joined_stages(const std::vector<std::int64_t>& stages) {
  std::string text = "E";
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stage > 0) text += '|';
    text += std::string(static_cast<std::size_t>(stages[stage]), 't');
  }
  return text + 'L';
}

Lines model_lines(const LaunchRequest& request) {
  const ModelSpec& spec = request.spec;
  Lines lines = {"--use-mcore-models"};
  add(lines, "--num-layers {} --hidden-size {} --ffn-hidden-size {}", spec.layers, spec.hidden,
      spec.ffn);
  add(lines, "--num-attention-heads {} --kv-channels {}", spec.heads, spec.head_dim);
  if (spec.kv_heads != spec.heads) {
    add(lines, "--group-query-attention --num-query-groups {}", spec.kv_heads);
  }
  if (spec.is_llama()) {
    add(lines, "--position-embedding-type rope --rotary-base {} --rotary-percent 1.0",
        std::llround(spec.rope_base));
    lines.emplace_back("--swiglu --normalization RMSNorm --disable-bias-linear");
    if (spec.qkv_bias) lines.emplace_back("--add-qkv-bias");
    if (spec.qk_norm) lines.emplace_back("--qk-layernorm");
  } else {
    lines.emplace_back("--position-embedding-type learned_absolute --normalization LayerNorm");
  }
  add(lines, "--norm-epsilon {} --attention-dropout {} --hidden-dropout {}", number(spec.norm_eps),
      number(spec.dropout), number(spec.dropout));
  if (!spec.tied) lines.emplace_back("--untie-embeddings-and-output-weights");
  add(lines, "--seq-length {} --max-position-embeddings {}", request.batch.seq,
      spec.is_llama() ? request.batch.seq : spec.max_seq);
  return lines;
}

Lines batch_lines(const LaunchRequest& request) {
  const LaunchSetting& setting = request.setting;
  Lines lines;
  add(lines, "--micro-batch-size {} --global-batch-size {} --train-iters {}",
      request.batch.micro_batch, request.batch.global_batch, setting.steps);
  add(lines, "--lr {} --min-lr {} --lr-decay-style cosine", number(setting.lr),
      number(setting.min_lr));
  add(lines, "--lr-decay-iters {} --lr-warmup-iters {}", setting.steps, setting.warmup_steps);
  add(lines, "--weight-decay {} --adam-beta1 0.9 --adam-beta2 0.95 --clip-grad {}",
      number(setting.weight_decay), number(setting.clip));
  add(lines, "--seed {} --calculate-per-token-loss", setting.seed);
  return lines;
}

void add_pipeline(Lines& lines, const LaunchRequest& request) {
  const Layout& layout = request.layout;
  add(lines, "--pipeline-model-parallel-size {}", layout.pp);
  if (layout.pp == 1) return;
  // At most one of the two (arguments.py); the former also says the stages of a rank.
  if (!layout.stages.empty()) {
    add(lines, "--pipeline-model-parallel-layout '{}'", joined_stages(layout.stages));
  } else if (num_chunks(layout) > 1) {
    add(lines, "--num-virtual-stages-per-pipeline-rank {}", num_chunks(layout));
  }
  if (num_chunks(layout) == 1) return;
  const std::int64_t group = interleaving_group(layout.pp, request.batch.num_micro_batches(layout));
  if (group != layout.pp) {
    add(lines, "--microbatch-group-size-per-virtual-pipeline-stage {}", group);
  }
}

void add_sharding(Lines& lines, const Layout& layout) {
  if (layout.zero >= 1) lines.emplace_back("--use-distributed-optimizer");
  const int instances = layout.dp / shard_degree(layout);
  if (layout.zero >= 1 && instances > 1) {
    add(lines, "--num-distributed-optimizer-instances {}", instances);
  }
  if (layout.zero >= 2) {
    lines.emplace_back("--use-megatron-fsdp --no-gradient-accumulation-fusion");
    add(lines, "--data-parallel-sharding-strategy {}",
        layout.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  if (layout.dp_sync == DpSync::kOverlapped) {
    lines.emplace_back(layout.zero >= 1 ? "--overlap-grad-reduce --overlap-param-gather"
                                        : "--overlap-grad-reduce");
  }
  if (layout.zero <= 1 && layout.bucket_mib != Layout{}.bucket_mib) {
    constexpr double kElemsPerMib = 0x1p20 / 4;  // fp32 gradients
    add(lines, "--ddp-bucket-size {}", std::llround(layout.bucket_mib * kElemsPerMib));
  }
}

Lines parallelism_lines(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  Lines lines;
  add(lines, "--tensor-model-parallel-size {}", layout.tp);
  if (layout.sp) lines.emplace_back("--sequence-parallel");
  add_pipeline(lines, request);
  add(lines, "--context-parallel-size {}", layout.cp);
  if (layout.cp > 1) {
    add(lines, "--cp-comm-type {}", layout.cp_comm == CpComm::kRing ? "p2p" : "all_gather");
  }
  add_sharding(lines, layout);
  if (layout.recompute == Recompute::kFull) {
    lines.emplace_back(
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  } else if (layout.recompute == Recompute::kSelective) {
    lines.emplace_back("--recompute-granularity selective --recompute-modules core_attn");
  }
  return lines;
}

std::string_view precision_line(ComputePrecision precision) {
  switch (precision) {
    case ComputePrecision::kBf16:
      return "--bf16 --attention-backend fused";
    case ComputePrecision::kFp16:
      return "--fp16 --attention-backend fused";
    case ComputePrecision::kFp8:
      return "--bf16 --fp8-format hybrid --attention-backend fused";
    case ComputePrecision::kFp32:
      return "--attention-backend unfused";
  }
  TRI_CHECK(false);
}

Lines data_lines(const LaunchRequest& request) {
  const LaunchSetting& setting = request.setting;
  Lines lines;
  if (setting.tokenizer.empty()) {
    // NullTokenizer adds a token for the end of documents.
    add(lines, "--tokenizer-type NullTokenizer --vocab-size {}", request.spec.vocab - 1);
  } else {
    add(lines, "--tokenizer-type HuggingFaceTokenizer --tokenizer-model {}",
        shell_word(setting.tokenizer));
  }
  if (setting.data.empty()) {
    lines.emplace_back("--mock-data");
  } else {
    add(lines, "--data-path {}", shell_word(setting.data));
  }
  lines.emplace_back("--split 99,1,0");
  add(lines, "--log-interval 1 --log-throughput --ckpt-format {}",
      request.layout.zero >= 2 ? "fsdp_dtensor" : "torch_dist");
  return lines;
}

std::vector<std::string> notes_of(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  std::vector<std::string> notes;
  const std::int64_t unit = 128 * std::int64_t{layout.tp};  // training/vocab_utils.py
  if (request.spec.vocab % unit != 0) {
    notes.push_back(fmt::format("The vocabulary is padded to a multiple of 128 * tp: {} rows.",
                                div_ceil(request.spec.vocab, unit) * unit));
  }
  if (layout.recompute == Recompute::kSelective) {
    notes.emplace_back("With fused attention selective recomputation saves nothing (issue #1225).");
  }
  return notes;
}

std::string section(std::string_view title, const Lines& lines) {
  return fmt::format("  # {}\n  {}\n", title, fmt::join(lines, "\n  "));
}

}  // namespace

LaunchFiles megatron_files(const LaunchRequest& request) {
  check(request);
  const Layout& layout = request.layout;
  LaunchFiles files;
  files.config_name = file_stem(request.model_name) + ".sh";
  files.notes = notes_of(request);
  files.config = comment(kName, kCommit, request, files) + "MEGATRON_ARGS=(\n" +
                 section("model", model_lines(request)) +
                 section("batch and optimizer", batch_lines(request)) +
                 section("parallelism", parallelism_lines(request)) +
                 section("precision", {std::string(precision_line(request.precision))}) +
                 section("data and logging", data_lines(request)) + ")\n";
  // arguments.py: needed with tensor or context parallelism before Blackwell, forbidden with FSDP.
  const bool is_ordered = layout.zero <= 1 && (layout.tp > 1 || layout.cp > 1);
  files.command =
      fmt::format("source {}\n", shell_word("./" + files.config_name)) +
      torchrun_command(request.setting, is_ordered ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "",
                       "pretrain_gpt.py \"${MEGATRON_ARGS[@]}\"");
  return files;
}

}  // namespace trireme::launch
