// Trireme's own configuration: TOML for `trireme train`.
#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"
#include "trireme/plan/launch/text.h"
#include "trireme/program/pipeline.h"

namespace trireme::launch {
namespace {

constexpr std::string_view kName = "trireme";

std::string_view bool_text(bool value) {
  return value ? "true" : "false";
}

std::string model_section(const ModelSpec& spec) {
  std::string text = fmt::format(
      "[model]\nfamily = {}\nlayers = {}\nhidden = {}\nheads = {}\nkv_heads = {}\nhead_dim = {}\n"
      "ffn = {}\nvocab = {}\nmax_seq = {}\nnorm_eps = {}\n",
      quoted(family_name(spec.family)), spec.layers, spec.hidden, spec.heads, spec.kv_heads,
      spec.head_dim, spec.ffn, spec.vocab, spec.max_seq, number(spec.norm_eps));
  if (!spec.is_llama()) return text + fmt::format("dropout = {}\n", number(spec.dropout));
  return text + fmt::format("rope_base = {}\ntied = {}\nqkv_bias = {}\nqk_norm = {}\n",
                            number(spec.rope_base), bool_text(spec.tied), bool_text(spec.qkv_bias),
                            bool_text(spec.qk_norm));
}

/// The keys of ZeRO and of the pipeline are there only where they have an effect.
std::string layout_section(const Layout& layout) {
  std::string text =
      fmt::format("[layout]\npp = {}\ndp = {}\ncp = {}\n", layout.pp, layout.dp, layout.cp);
  if (layout.cp > 1) text += fmt::format("cp_comm = {}\n", quoted(cp_comm_name(layout.cp_comm)));
  text += fmt::format("tp = {}\nsp = {}\n", layout.tp, bool_text(layout.sp));
  if (layout.pp > 1) text += fmt::format("schedule = {}\n", quoted(layout.schedule));
  if (layout.pp > 1 && layout.chunks != 0) text += fmt::format("chunks = {}\n", layout.chunks);
  if (!layout.stages.empty()) {
    text += fmt::format("stages = [{}]\n", fmt::join(layout.stages, ", "));
  }
  text += fmt::format("zero = {}\n", layout.zero);
  if (layout.dp_shard != 0) text += fmt::format("dp_shard = {}\n", layout.dp_shard);
  if (layout.zero >= 2) {
    text += fmt::format("reduce = {}\n", quoted(gradient_reduction_name(layout.reduce)));
  }
  if (layout.zero == 3) {
    text += fmt::format("reshard = {}\nprefetch = {}\n", quoted(reshard_name(layout.reshard)),
                        layout.prefetch);
  }
  return text + fmt::format("dp_sync = {}\nbucket_mib = {}\nrecompute = {}\n",
                            quoted(dp_sync_name(layout.dp_sync)), number(layout.bucket_mib),
                            quoted(recompute_name(layout.recompute)));
}

std::string run_sections(const LaunchRequest& request) {
  const LaunchSetting& setting = request.setting;
  return fmt::format("[run]\nname = {}\nseed = {}\nsteps = {}\n\n",
                     quoted(file_stem(request.model_name)), setting.seed, setting.steps);
}

std::string learning_sections(const LaunchRequest& request) {
  const LaunchSetting& setting = request.setting;
  return fmt::format(
      "[optimizer]\nlr = {}\nweight_decay = {}\nclip = {}\n\n"
      "[lr]\nshape = \"cosine\"\nwarmup_steps = {}\nmin_lr = {}\n",
      number(setting.lr), number(setting.weight_decay), number(setting.clip), setting.warmup_steps,
      number(setting.min_lr));
}

void check(const LaunchRequest& request) {
  check_layout(request.spec, request.layout, request.batch);
  // Refuses a schedule, its chunks or micro-batches, and stages that do not fit.
  static_cast<void>(Pipeline(request.spec, request.layout,
                             narrow<int>(request.batch.num_micro_batches(request.layout))));
  if (request.precision != ComputePrecision::kBf16 &&
      request.precision != ComputePrecision::kFp32) {
    refuse(kName, fmt::format("precision = {}", precision_name(request.precision)),
           "it computes in bf16 or fp32", "use precision = bf16");
  }
  // train/config.cpp: texts are read byte by byte.
  constexpr std::int64_t kNumBytes = 256;
  if (request.spec.vocab < kNumBytes) {
    refuse(kName, fmt::format("vocab = {}", request.spec.vocab),
           "must be at least 256, one entry per byte", "use vocab = 256");
  }
}

}  // namespace

LaunchFiles trireme_files(const LaunchRequest& request) {
  check(request);
  const LaunchSetting& setting = request.setting;
  LaunchFiles files;
  files.config_name = file_stem(request.model_name) + ".toml";
  if (setting.data.empty()) files.notes.push_back("DATA.txt stands for a file of plain text.");
  files.config =
      comment(kName, "", request, files) + "\n" + run_sections(request) +
      model_section(request.spec) +
      fmt::format("\n[data]\ntext = [{}]\n\n",
                  quoted(setting.data.empty() ? "DATA.txt" : std::string_view(setting.data))) +
      fmt::format("[batch]\nseq = {}\nmicro_batch = {}\nglobal_batch = {}\n\n", request.batch.seq,
                  request.batch.micro_batch, request.batch.global_batch) +
      layout_section(request.layout) +
      fmt::format("\n[precision]\ncompute = {}\n\n", quoted(precision_name(request.precision))) +
      learning_sections(request);
  files.command = fmt::format("trireme train {}\n", shell_word(files.config_name));
  if (setting.nodes > 1) {  // docs/launching.md
    files.command = fmt::format(
        "srun --mpi=pmix --nodes {} --ntasks {} --ntasks-per-node {} --kill-on-bad-exit=1 {}",
        setting.nodes, request.layout.world(), setting.devices_per_node, files.command);
  }
  return files;
}

}  // namespace trireme::launch
