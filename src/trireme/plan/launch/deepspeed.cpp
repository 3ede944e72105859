// DeepSpeed edaa722 (2026-08-22): JSON for deepspeed.initialize. The model is in the user's script.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"
#include "trireme/plan/launch/text.h"

namespace trireme::launch {
namespace {

constexpr std::string_view kName = "deepspeed";

using Json = nlohmann::ordered_json;

void check_zero(const Layout& layout) {
  // runtime/pipe/engine.py.
  if (layout.pp > 1 && layout.zero >= 2) {
    refuse(kName, fmt::format("zero = {} with pp = {}", layout.zero, layout.pp),
           "ZeRO-2 and 3 exclude its pipelines", "use zero = 1, or pp = 1");
  }
  if (shard_degree(layout) != 1 && shard_degree(layout) != layout.dp) {
    refuse(kName, fmt::format("dp_shard = {}", layout.dp_shard), "it shards over all of dp",
           "use dp_shard = 0");
  }
  // runtime/zero/stage3.py gathers for each pass.
  if (layout.zero == 3 && layout.reshard == Reshard::kNever) {
    refuse(kName, "reshard = never", "ZeRO-3 frees parameters after each pass",
           "use reshard = always, or zero = 2");
  }
}

/// Each of the three makes its groups without knowing the others: pipelines by PipelineModule's
/// topology, AutoTP by a mesh of data and tensor ranks (runtime/engine.py,
/// _configure_tensor_parallel_states), Ulysses by one of data and sequence ranks (__init__.py).
void check_axes(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  if ((layout.pp > 1) + (layout.tp > 1) + (layout.cp > 1) > 1) {
    refuse(kName, fmt::format("pp = {}, tp = {}, cp = {}", layout.pp, layout.tp, layout.cp),
           "a configuration can ask for one of pipelines, AutoTP and Ulysses only",
           "use only one of them above 1, or megatron");
  }
  if (layout.sp) {
    refuse(kName, "sp = 1", "AutoTP all-reduces", "use sp = 0");
  }
  check_divides(kName, {"tp", layout.tp},
                {{"heads", request.spec.heads},
                 {"kv_heads", request.spec.kv_heads},
                 {"ffn", request.spec.ffn}},
                "must divide them");
  // runtime/sequence_parallel/ulysses_sp.py: heads are spread over the ranks, and the sequence.
  check_divides(kName, {"cp", layout.cp},
                {{"heads", request.spec.heads}, {"seq", request.batch.seq}},
                "must divide them (Ulysses)");
  if (request.spec.kv_heads % layout.cp != 0 && layout.cp % request.spec.kv_heads != 0) {
    refuse(kName, fmt::format("cp = {} with kv_heads = {}", layout.cp, request.spec.kv_heads),
           "one must divide the other (Ulysses)",
           fmt::format("use cp = {}", nearest_divisors(request.spec.kv_heads, layout.cp)));
  }
}

void check(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  check_zero(layout);
  check_axes(request);
  check_plain_pipeline(kName, layout);
  // runtime/pipe/schedule.py: TrainSchedule.
  if (layout.pp > 1 && layout.schedule != "1f1b") {
    refuse(kName, fmt::format("schedule = \"{}\"", layout.schedule), "its pipelines know 1f1b only",
           "use schedule = 1f1b");
  }
  if (layout.recompute == Recompute::kSelective) {
    refuse(kName, "recompute = selective", "it checkpoints whole layers", "use recompute = none");
  }
  if (request.precision == ComputePrecision::kFp8) {
    refuse(kName, "precision = fp8", "it computes in bf16, fp16 or fp32", "use precision = bf16");
  }
}

std::vector<std::string> notes_of(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  std::vector<std::string> notes = {
      "train.py stands for a script that builds the model and calls deepspeed.initialize."};
  if (layout.pp > 1) {
    notes.push_back(fmt::format(
        "It builds PipelineModule(layers, num_stages={}{}).", layout.pp,
        layout.recompute == Recompute::kFull ? ", activation_checkpoint_interval=1" : ""));
  } else if (layout.recompute == Recompute::kFull) {
    notes.emplace_back("It recomputes: model.gradient_checkpointing_enable().");
  }
  if (layout.tp > 1) notes.emplace_back("The model is a Hugging Face one, which AutoTP cuts.");
  if (layout.cp > 1) {
    notes.emplace_back(
        "Ulysses spreads heads over the cp ranks for attention: all-to-all, not a ring.");
  }
  if (request.precision == ComputePrecision::kBf16 && layout.zero != 1) {
    notes.emplace_back("Gradients of micro-batches add up in bf16.");
  }
  if (layout.zero >= 2 && layout.reduce == GradientReduction::kStep) {
    notes.emplace_back("Gradients are reduced after each micro-batch, not once a step.");
  }
  return notes;
}

Json zero_config(const Layout& layout) {
  Json zero = {{"stage", layout.zero}};
  if (layout.zero == 0) return zero;
  zero["overlap_comm"] = layout.dp_sync == DpSync::kOverlapped;
  if (layout.bucket_mib != Layout{}.bucket_mib) {
    constexpr double kElemsPerMib = 0x1p20 / 2;  // gradients travel in 16 bits
    zero["reduce_bucket_size"] = std::llround(layout.bucket_mib * kElemsPerMib);
  }
  return zero;
}

void add_precision(Json& config, const LaunchRequest& request) {
  if (request.precision == ComputePrecision::kFp16) config["fp16"] = {{"enabled", true}};
  if (request.precision != ComputePrecision::kBf16) return;
  config["bf16"] = {{"enabled", true}};
  // runtime/engine.py, _do_optimizer_sanity_check: fp32 is for stage 1, refused with stage 0.
  if (request.layout.zero == 1) config["data_types"] = {{"grad_accum_dtype", "fp32"}};
}

Json optimizer_config(const LaunchSetting& setting) {
  return {{"type", "AdamW"},
          {"params",
           {{"lr", setting.lr},
            {"betas", {0.9, 0.95}},
            {"eps", 1e-8},
            {"weight_decay", setting.weight_decay}}}};
}

/// runtime/lr_schedules.py, which refuses a warm-up of 0 steps.
Json scheduler_config(const LaunchSetting& setting) {
  return {{"type", "WarmupCosineLR"},
          {"params",
           {{"total_num_steps", setting.steps},
            {"warmup_num_steps", std::max<std::int64_t>(1, setting.warmup_steps)},
            {"warmup_type", "linear"},
            {"cos_min_ratio", setting.min_lr / setting.lr}}}};
}

Json config_of(const LaunchRequest& request) {
  const Layout& layout = request.layout;
  Json config = {{"train_batch_size", request.batch.global_batch},
                 {"train_micro_batch_size_per_gpu", request.batch.micro_batch},
                 {"gradient_accumulation_steps", request.batch.num_micro_batches(layout)},
                 {"gradient_clipping", request.setting.clip},
                 {"optimizer", optimizer_config(request.setting)},
                 {"scheduler", scheduler_config(request.setting)},
                 {"zero_optimization", zero_config(layout)}};
  add_precision(config, request);
  if (layout.tp > 1) config["tensor_parallel"] = {{"autotp_size", layout.tp}};
  if (layout.cp > 1) {  // both: initialize makes the groups of the two axes
    config["data_parallel_size"] = layout.dp;
    config["sequence_parallel_size"] = layout.cp;
  }
  return config;
}

}  // namespace

LaunchFiles deepspeed_files(const LaunchRequest& request) {
  check(request);
  const LaunchSetting& setting = request.setting;
  LaunchFiles files;
  files.config_name = file_stem(request.model_name) + "_deepspeed.json";
  files.config = config_of(request).dump(2) + "\n";
  files.notes = notes_of(request);
  files.command = fmt::format(
      "deepspeed {}--num_nodes {} --num_gpus {} train.py --deepspeed --deepspeed_config {}\n",
      setting.nodes > 1 ? "--hostfile hostfile " : "", setting.nodes, setting.devices_per_node,
      shell_word(files.config_name));
  return files;
}

}  // namespace trireme::launch
