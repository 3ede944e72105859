// picotron 59714b1 (2025-08-26): JSON for train.py, with the keys of template/base_config.json.
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"
#include "trireme/plan/launch/text.h"

namespace trireme::launch {
namespace {

constexpr std::string_view kName = "picotron";

using Json = nlohmann::ordered_json;

/// What it has not at all.
void check_strategies(const Layout& layout) {
  if (layout.zero != 0) {
    refuse(kName, fmt::format("zero = {}", layout.zero), "it has no ZeRO", "use zero = 0");
  }
  if (layout.sp) {
    refuse(kName, "sp = 1", "its tensor parallelism all-reduces", "use sp = 0");
  }
  if (layout.recompute != Recompute::kNone) {
    refuse(kName, fmt::format("recompute = {}", recompute_name(layout.recompute)),
           "it recomputes nothing", "use recompute = none");
  }
  // context_parallel/context_parallel.py: ring_attention.
  if (layout.cp > 1 && layout.cp_comm != CpComm::kRing) {
    refuse(kName, "cp_comm = all_gather", "its context parallelism is a ring",
           "use cp_comm = ring");
  }
  check_plain_pipeline(kName, layout);
}

void check(const LaunchRequest& request) {
  const ModelSpec& spec = request.spec;
  const Layout& layout = request.layout;
  check_llama(kName, spec, /*has_qkv_bias=*/false);  // model.py
  // checkpoint.py: lm_head is always a table of its own.
  if (spec.tied) {
    refuse(kName, "tied = true", "its head is always a table of its own",
           "use a model with two tables, or another framework");
  }
  check_strategies(layout);
  // model.py, Attention; tensor_parallel.py, ColumnParallelLinear, VocabParallelEmbedding.
  check_divides(kName, {"tp", layout.tp},
                {{"heads", spec.heads},
                 {"kv_heads", spec.kv_heads},
                 {"ffn", spec.ffn},
                 {"vocab", spec.vocab}},
                "must divide them");
  // checkpoint.py: "Some ranks has no layers".
  if (layout.pp > spec.layers) {
    refuse(kName, fmt::format("pp = {} with layers = {}", layout.pp, spec.layers),
           "each rank needs a layer", fmt::format("use pp = {}", spec.layers));
  }
  if (request.batch.seq % layout.cp != 0) {  // train.py
    refuse(kName, fmt::format("seq = {} with cp = {}", request.batch.seq, layout.cp),
           "must be a multiple of cp",
           fmt::format("use seq = {}", nearest_multiples(request.batch.seq, layout.cp)));
  }
  // train.py takes bf16 on every GPU that has it.
  if (request.precision != ComputePrecision::kBf16) {
    refuse(kName, fmt::format("precision = {}", precision_name(request.precision)),
           "it trains in bf16", "use precision = bf16");
  }
}

std::vector<std::string> notes_of(const LaunchRequest& request) {
  std::vector<std::string> notes = {
      "The learning rate is constant, AdamW decays all by 0.01, and gradients are not clipped.",
      "model.name says hidden, ffn and vocab: create_config.py fetches its weights beforehand."};
  if (request.setting.tokenizer.empty()) {
    notes.emplace_back("MODEL stands for the model's name on the Hugging Face hub.");
  }
  if (request.layout.cp > 1 && request.layout.dp == 1) {
    notes.emplace_back(
        "With dp = 1 some commits do not reduce gradients over cp: check that yours does.");
  }
  if (request.layout.dp > 1) notes.emplace_back("Its buckets are of 25 MB.");
  return notes;
}

Json config_of(const LaunchRequest& request) {
  const ModelSpec& spec = request.spec;
  const Layout& layout = request.layout;
  const LaunchSetting& setting = request.setting;
  const std::string stem = file_stem(request.model_name);
  const std::string engine = layout.pp > 1 && layout.schedule == "gpipe" ? "afab" : "1f1b";
  Json config;
  config["distributed"] = {{"tp_size", layout.tp}, {"cp_size", layout.cp}, {"pp_size", layout.pp},
                           {"dp_size", layout.dp}, {"pp_engine", engine},  {"backend", "nccl"},
                           {"use_cpu", false}};
  config["model"] = {{"name", setting.tokenizer.empty() ? "MODEL" : setting.tokenizer},
                     {"num_hidden_layers", spec.layers},
                     {"num_attention_heads", spec.heads},
                     {"num_key_value_heads", spec.kv_heads},
                     {"dtype", "bfloat16"},
                     {"use_flash_attention", true},
                     {"use_fused_adam", true}};
  config["training"] = {{"seed", setting.seed},
                        {"learning_rate", setting.lr},
                        {"total_train_steps", setting.steps},
                        {"seq_length", request.batch.seq},
                        {"micro_batch_size", request.batch.micro_batch},
                        {"gradient_accumulation_steps", request.batch.num_micro_batches(layout)},
                        {"num_samples", nullptr},
                        {"max_tokens", nullptr}};
  config["dataset"] = {{"name", setting.data.empty() ? "roneneldan/TinyStories" : setting.data},
                       {"num_workers", 0},
                       {"num_proc", 4}};
  config["checkpoint"] = {
      {"save_dir", "checkpoints/" + stem}, {"save_frequency", setting.steps}, {"load_path", ""}};
  config["logging"] = {{"use_wandb", false}, {"project_name", "picotron"}, {"run_name", stem}};
  config["environment"] = {
      {"OMP_NUM_THREADS", "1"}, {"TOKENIZERS_PARALLELISM", "false"}, {"FLASH_ATTEN", "1"}};
  return config;
}

}  // namespace

LaunchFiles picotron_files(const LaunchRequest& request) {
  check(request);
  LaunchFiles files;
  files.config_name = file_stem(request.model_name) + ".json";
  files.config = config_of(request).dump(2) + "\n";
  files.notes = notes_of(request);
  files.command = torchrun_command(request.setting, "CUDA_DEVICE_MAX_CONNECTIONS=1 ",
                                   "train.py --config " + shell_word(files.config_name));
  return files;
}

}  // namespace trireme::launch
