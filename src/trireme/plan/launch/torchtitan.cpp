// torchtitan b5bcd76 (2026-08-21): a Python module with a function that returns Trainer.Config.
// TOML is gone there (PR #2386); torchtitan.train takes any importable module (config/manager.py).
#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/base/units.h"
#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"
#include "trireme/plan/launch/text.h"

namespace trireme::launch {
namespace {

constexpr std::string_view kName = "torchtitan";
constexpr std::string_view kCommit = "b5bcd76";

/// A model of its registries; there the vocabulary is that of the published weights.
struct Flavor {
  std::string_view model;   ///< module of torchtitan.models
  std::string_view preset;  ///< function of its config_registry
  std::string_view name;    ///< argument of its model_registry
  std::int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  std::int64_t positions;  ///< of its rotary embedding, the longest sequence
  bool qk_norm;
};

// torchtitan/models/llama3/__init__.py (ffn by compute_ffn_hidden_dim), models/qwen3/__init__.py.
constexpr std::array<Flavor, 4> kFlavors = {{
    {"llama3", "llama3_8b", "8B", 32, 4096, 32, 8, 128, 14336, 128256, 131072, false},
    {"llama3", "llama3_70b", "70B", 80, 8192, 64, 8, 128, 28672, 128256, 131072, false},
    {"llama3", "llama3_405b", "405B", 126, 16384, 128, 8, 128, 53248, 128256, 131072, false},
    {"qwen3", "qwen3_32b", "32B", 64, 5120, 64, 8, 128, 25600, 151936, 40960, true},
}};

const Flavor& flavor_of(const ModelSpec& spec) {
  const auto found = std::find_if(kFlavors.begin(), kFlavors.end(), [&](const Flavor& flavor) {
    return spec.is_llama() && !spec.tied && !spec.qkv_bias && spec.qk_norm == flavor.qk_norm &&
           spec.layers == flavor.layers && spec.hidden == flavor.hidden &&
           spec.heads == flavor.heads && spec.kv_heads == flavor.kv_heads &&
           spec.head_dim == flavor.head_dim && spec.ffn == flavor.ffn && spec.vocab == flavor.vocab;
  });
  if (found == kFlavors.end()) {
    std::string known;
    for (const Flavor& flavor : kFlavors) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", flavor.preset);
    }
    refuse(kName,
           fmt::format("layers = {}, hidden = {}, heads = {}, kv_heads = {}, ffn = {}, vocab = {}",
                       spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.ffn, spec.vocab),
           "a model must be in its registries, and of those this one knows " + known,
           "use one of them, or another framework");
  }
  return *found;
}

struct ScheduleName {
  std::string_view ours;
  std::string_view theirs;  ///< of torch.distributed.pipelining.schedules.get_schedule_class
  int chunks;               ///< stages of a rank; 0 = any number from 2 on (PipelineScheduleMulti)
};
constexpr std::array<ScheduleName, 6> kSchedules = {{{"1f1b", "1F1B", 1},
                                                     {"gpipe", "GPipe", 1},
                                                     {"interleaved", "Interleaved1F1B", 0},
                                                     {"breadth-first", "LoopedBFS", 0},
                                                     {"zb-v", "ZBVZeroBubble", 2},
                                                     {"dualpipe-v", "DualPipeV", 2}}};

const ScheduleName& schedule_of(const Layout& layout) {
  const auto found =
      std::find_if(kSchedules.begin(), kSchedules.end(),
                   [&](const ScheduleName& each) { return each.ours == layout.schedule; });
  if (found == kSchedules.end()) {
    refuse(kName, fmt::format("schedule = \"{}\"", layout.schedule),
           "PyTorch's pipelining has no such schedule",
           "use 1f1b, gpipe, interleaved, breadth-first, zb-v or dualpipe-v");
  }
  return *found;
}

void check_schedule(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  const ScheduleName& schedule = schedule_of(layout);
  const int chunks = num_chunks(layout);
  if (schedule.chunks == 0 ? chunks < 2 : chunks != schedule.chunks) {
    refuse(kName, fmt::format("chunks = {} with schedule = \"{}\"", chunks, layout.schedule),
           schedule.chunks == 0 ? "must be at least 2" : fmt::format("must be {}", schedule.chunks),
           fmt::format("use chunks = {}", schedule.chunks == 0 ? 2 : schedule.chunks));
  }
  const std::int64_t micro_batches = request.batch.num_micro_batches(layout);
  const std::string values = fmt::format("{} micro-batches with pp = {} and schedule = \"{}\"",
                                         micro_batches, layout.pp, layout.schedule);
  // torch schedules.py, ScheduleInterleaved1F1B: micro-batches in equal rounds of about pp.
  const std::int64_t rounds = std::max<std::int64_t>(1, micro_batches / layout.pp);
  if (schedule.ours == "interleaved" && micro_batches % rounds != 0) {
    refuse(kName, values, fmt::format("must be a multiple of its {} rounds", rounds),
           fmt::format("use {} micro-batches", nearest_multiples(micro_batches, layout.pp)));
  }
  // torch schedules.py, ScheduleDualPipeV: at least as many micro-batches as stages.
  if (schedule.ours == "dualpipe-v" && micro_batches < 2 * std::int64_t{layout.pp}) {
    refuse(kName, values, "must be at least as many as stages, 2 pp",
           fmt::format("use {} micro-batches or more", 2 * layout.pp));
  }
}

/// Layers of each stage: those of the layout, or as torchtitan spreads them, where embedding and
/// head count as a layer each (distributed/pipeline_parallel.py; conventions of
/// pipeline_parallel_first_stage_less_layers and last_stage_less_layers = 1).
std::vector<std::int64_t> stage_layers(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  const std::int64_t num_stages = std::int64_t{layout.pp} * num_chunks(layout);
  if (!layout.stages.empty()) {
    const std::int64_t sum =
        std::accumulate(layout.stages.begin(), layout.stages.end(), std::int64_t{0});
    if (std::ssize(layout.stages) != num_stages || sum != request.spec.layers) {
      refuse(kName, fmt::format("stages = {}", fmt::join(layout.stages, ", ")),
             fmt::format("must be {} numbers that sum to layers = {}", num_stages,
                         request.spec.layers),
             "correct them, or leave them out");
    }
    return layout.stages;
  }
  const std::int64_t effective = request.spec.layers + 2;
  if (num_stages > effective) {
    refuse(kName, fmt::format("pp = {} with {} stages of a rank", layout.pp, num_chunks(layout)),
           fmt::format("more stages than layers = {} and two ends", request.spec.layers),
           "use a smaller pp");
  }
  std::vector<std::int64_t> layers;
  for (std::int64_t stage = 0; stage < num_stages; ++stage) {
    layers.push_back(effective / num_stages + (stage < effective % num_stages ? 1 : 0));
  }
  --layers.front();
  --layers.back();
  return layers;
}

/// The modules of each stage, by their names in the model.
std::string stage_modules(const LaunchRequest& request) {
  const std::vector<std::int64_t> layers = stage_layers(request);
  std::string text = "    c.parallelism.module_fqns_per_model_part = [\n";
  std::int64_t begin = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::vector<std::string> parts;
    if (stage == 0) parts.emplace_back("[\"tok_embeddings\"]");
    if (layers[stage] > 0) {
      parts.push_back(
          fmt::format("[f\"layers.{{i}}\" for i in range({}, {})]", begin, begin + layers[stage]));
    }
    if (stage + 1 == layers.size()) parts.emplace_back("[\"norm\", \"lm_head\"]");
    text += fmt::format("        {},\n", fmt::join(parts, " + "));
    begin += layers[stage];
  }
  return text + "    ]\n";
}

void check_sharding(const Layout& layout) {
  if (layout.zero == 1) {
    refuse(kName, "zero = 1", "it shards parameters, gradients and optimizer state together (FSDP)",
           "use zero = 2, which keeps gathered parameters until the backward pass, or 3");
  }
  // distributed/parallel_dims.py: FSDP shards over dp_shard * cp.
  if (layout.zero == 0 && layout.cp > 1) {
    refuse(kName, fmt::format("zero = 0 with cp = {}", layout.cp),
           "FSDP shards over the context-parallel ranks, too", "use zero = 2 or 3");
  }
}

void check(const LaunchRequest& request) {
  const ModelSpec& spec = request.spec;
  const Layout& layout = request.layout;
  // models/common/decoder.py: NotImplementedError.
  if (spec.tied && layout.pp > 1) {
    refuse(kName, fmt::format("tied = true with pp = {}", layout.pp),
           "one table cannot be on the first and on the last stage", "use pp = 1");
  }
  check_sharding(layout);
  check_divides(kName, {"tp", layout.tp}, {{"heads", spec.heads}, {"kv_heads", spec.kv_heads}},
                "must divide the heads");  // models/common/decoder.py
  // components/loss.py:130-140: chunks of ceil(vocab / tp) rows, none empty.
  if (div_ceil(spec.vocab, layout.tp) * (layout.tp - 1) >= spec.vocab) {
    refuse(kName, fmt::format("tp = {} with vocab = {}", layout.tp, spec.vocab),
           "leaves a rank without rows of the vocabulary", "use a smaller tp");
  }
  // trainer.py: tokens of a micro-batch are cut over tp under sequence parallelism and over 2 cp.
  const std::int64_t pieces =
      std::int64_t{layout.sp ? layout.tp : 1} * (layout.cp > 1 ? 2 * layout.cp : 1);
  const std::int64_t tokens = request.batch.micro_batch * request.batch.seq;
  if (tokens % pieces != 0) {
    refuse(kName,
           fmt::format("micro_batch * seq = {} with tp = {}, sp = {} and cp = {}", tokens,
                       layout.tp, layout.sp ? 1 : 0, layout.cp),
           fmt::format("must be a multiple of {}", pieces),
           fmt::format("use micro_batch * seq = {}", nearest_multiples(tokens, pieces)));
  }
  if (layout.pp > 1) check_schedule(request);
  // models/common/decoder.py, update_from_config.
  const std::int64_t positions = flavor_of(spec).positions;
  if (request.batch.seq > positions) {
    refuse(kName, fmt::format("seq = {}", request.batch.seq),
           fmt::format("the rotary embedding has {} positions", positions),
           fmt::format("use seq = {}", positions));
  }
  // config/configs.py: mixed_precision_param is bfloat16 or float32.
  if (request.precision == ComputePrecision::kFp16) {
    refuse(kName, "precision = fp16", "it computes in bf16, fp8 or fp32", "use precision = bf16");
  }
}

std::vector<std::string> notes_of(const LaunchRequest& request, const Flavor& flavor) {
  const Layout& layout = request.layout;
  std::vector<std::string> notes = {
      "Its AdamW decays norms and embeddings, too.",
      fmt::format("Data: the c4 of {}; edit c.dataloader for others.", flavor.preset)};
  if (layout.zero >= 2 && layout.pp == 1 && layout.reduce == GradientReduction::kStep) {
    notes.emplace_back("Gradients are reduced after each micro-batch, not once a step.");
  }
  if (layout.cp > 1 && layout.cp_comm == CpComm::kRing) {
    notes.emplace_back("Keys and values are gathered, not passed round a ring.");
  }
  if (layout.recompute == Recompute::kSelective) {
    notes.emplace_back("Its selective recomputation keeps attention and every other product.");
  }
  return notes;
}

std::string_view recompute_config(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "None";
    case Recompute::kSelective:
      return "SelectiveAC.Config()";
    case Recompute::kFull:
      return "FullAC.Config()";
  }
  TRI_CHECK(false);
}

/// Arguments of model_registry, nothing if the preset's own model will do.
std::string model_arguments(const LaunchRequest& request) {
  std::string arguments;
  // Context parallelism needs FlexAttention.
  if (request.layout.cp > 1) arguments += ", attn_backend=\"flex\"";
  if (request.precision == ComputePrecision::kFp8) {
    arguments +=
        ", converters=[Float8LinearConverter.Config(\n"
        "        filter_fqns=[\"lm_head\"], model_compile_enabled=True)]";
  }
  return arguments;
}

std::string imports(const LaunchRequest& request, const Flavor& flavor) {
  std::string text = "from torchtitan.components.optimizer import default_adamw\n";
  if (request.precision == ComputePrecision::kFp8) {
    text +=
        "from torchtitan.components.quantization import Float8LinearConverter\n"
        "from torchtitan.config import CompileConfig\n";
  }
  if (request.layout.recompute != Recompute::kNone) {
    text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n",
                        request.layout.recompute == Recompute::kFull ? "FullAC" : "SelectiveAC");
  }
  if (!model_arguments(request).empty()) {
    text += fmt::format("from torchtitan.models.{} import model_registry\n", flavor.model);
  }
  return text + fmt::format("from torchtitan.models.{}.config_registry import {}\n", flavor.model,
                            flavor.preset);
}

std::string training_lines(const LaunchRequest& request) {
  const Batch& batch = request.batch;
  const LaunchSetting& setting = request.setting;
  std::string text = fmt::format(
      "    c.training.num_tokens_per_microbatch_per_dp_rank = {} * {}\n"
      "    c.training.num_tokens_per_train_step = {} * {}\n"
      "    c.training.max_context_length = {}\n"
      "    c.training.steps = {}\n"
      "    c.training.max_norm = {}\n"
      "    c.training.mixed_precision_param = {}\n",
      batch.micro_batch, batch.seq, batch.global_batch, batch.seq, batch.seq, setting.steps,
      setting.clip == 0 ? "float(\"inf\")" : number(setting.clip),
      quoted(request.precision == ComputePrecision::kFp32 ? "float32" : "bfloat16"));
  if (request.layout.pp > 1) text += "    c.training.disable_cuda_graphs = True\n";
  return text + fmt::format(
                    "    c.optimizer = default_adamw(lr={}, weight_decay={})\n"
                    "    c.lr_scheduler.warmup_steps = {}\n"
                    "    c.lr_scheduler.decay_type = \"cosine\"\n"
                    "    c.lr_scheduler.min_lr_factor = {}\n"
                    "    c.debug.seed = {}\n",
                    number(setting.lr), number(setting.weight_decay), setting.warmup_steps,
                    number(setting.min_lr / setting.lr), setting.seed);
}

std::string_view reshard_policy(const Layout& layout) {
  // With ZeRO-2 the parameters of a pass stay gathered; "default" is reshard = auto: always
  // without a pipeline, never with one.
  if (layout.zero == 2 || layout.reshard == Reshard::kNever) return "never";
  return layout.reshard == Reshard::kAlways ? "always" : "default";
}

std::string parallelism_lines(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  const int shard = shard_degree(layout);
  std::string text = fmt::format(
      "    c.parallelism.data_parallel_replicate_degree = {}\n"
      "    c.parallelism.data_parallel_shard_degree = {}\n",
      layout.dp / shard, shard);
  if (layout.zero >= 2) {
    text += fmt::format("    c.parallelism.fsdp_reshard_after_forward = {}\n",
                        quoted(reshard_policy(layout)));
  }
  text += fmt::format(
      "    c.parallelism.context_parallel_degree = {}\n"
      "    c.parallelism.tensor_parallel_degree = {}\n"
      "    c.parallelism.enable_sequence_parallel = {}\n"
      "    c.parallelism.pipeline_parallel_degree = {}\n",
      layout.cp, layout.tp, layout.sp ? "True" : "False", layout.pp);
  if (layout.pp == 1) return text;
  return text +
         fmt::format(
             "    c.parallelism.pipeline_parallel_schedule = {}\n"
             "    c.parallelism.num_pp_microbatches = {}\n",
             quoted(schedule_of(layout).theirs), request.batch.num_micro_batches(layout)) +
         stage_modules(request);
}

}  // namespace

LaunchFiles torchtitan_files(const LaunchRequest& request) {
  check(request);
  const Flavor& flavor = flavor_of(request.spec);
  const std::string module = "plan_" + python_name(request.model_name);
  LaunchFiles files;
  files.config_name = module + ".py";
  files.notes = notes_of(request, flavor);
  files.config = comment(kName, kCommit, request, files) + imports(request, flavor) +
                 fmt::format("\n\ndef plan():\n    c = {}()\n", flavor.preset);
  const std::string arguments = model_arguments(request);
  if (!arguments.empty()) {
    files.config +=
        fmt::format("    c.model_spec = model_registry({}{})\n", quoted(flavor.name), arguments);
  }
  if (!request.setting.tokenizer.empty()) {
    files.config += fmt::format("    c.hf_assets_path = {}\n", quoted(request.setting.tokenizer));
  }
  files.config += training_lines(request) + parallelism_lines(request);
  if (request.precision == ComputePrecision::kFp8) {
    files.config += "    c.compile = CompileConfig(enable=True)\n";
  }
  files.config += fmt::format("    c.activation_checkpoint = {}\n    return c\n",
                              recompute_config(request.layout.recompute));
  files.command = torchrun_command(
      request.setting, "", fmt::format("-m torchtitan.train --module {} --config plan", module));
  return files;
}

}  // namespace trireme::launch
