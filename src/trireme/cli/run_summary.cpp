#include "trireme/cli/run_summary.h"

#include <nlohmann/json.hpp>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cli/verification.h"
#include "trireme/kernels/cpu/isa.h"
#include "trireme/kernels/cpu/matmul.h"
#include "trireme/model/flops.h"
#include "trireme/model/parameters.h"
#include "trireme/program/pipeline.h"
#include "trireme/program/schedules/virtual_clock.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string_view variant_name(const ModelSpec& spec) {
  if (!spec.is_llama()) return "";
  if (spec.qk_norm) return spec.qkv_bias ? ", q/k norms, q/k/v biases" : ", q/k norms (Qwen3)";
  return spec.qkv_bias ? ", q/k/v biases (Qwen2)" : "";
}

std::string model_lines(const RunSummary& summary) {
  const ModelSpec& spec = summary.config.model.spec;
  const FlopsPerToken flops = flops_per_token(spec, summary.config.batch.seq);
  return fmt::format(
      "model   {}{}: {} layers, hidden {}, {} heads of {} ({} key/value), ffn {}, vocabulary {}{}\n"
      "        {} parameters; FLOPs per token, forward and backward: {} (full attention), {} "
      "(causal)\n",
      family_name(spec.family), variant_name(spec), spec.layers, spec.hidden, spec.heads,
      spec.head_dim, spec.kv_heads, spec.ffn, spec.vocab, spec.tied ? ", tied" : "",
      format_count(ParameterTable(spec).num_elems()), format_count(flops.full()),
      format_count(flops.causal()));
}

std::string data_lines(const RunSummary& summary) {
  const Corpus& corpus = summary.data.corpus();
  std::string text;
  for (int file = 0; file < corpus.num_files(); ++file) {
    text += fmt::format("{}{}: {} tokens for training, {} held out\n",
                        file == 0 ? "data    " : "        ", corpus.path(file),
                        format_count(corpus.num_tokens(file, Split::kTrain)),
                        format_count(corpus.num_tokens(file, Split::kValidation)));
  }
  const std::int64_t windows = summary.data.train().index().num_windows();
  const std::int64_t samples = summary.config.run.steps * summary.config.batch.global_batch;
  return text + fmt::format(
                    "        {} windows of {} tokens; the run takes {} ({:.2f} epochs); an "
                    "evaluation takes {} held-out windows\n",
                    format_count(windows), summary.config.batch.seq, format_count(samples),
                    static_cast<double>(samples) / static_cast<double>(windows),
                    format_count(summary.data.eval_windows()));
}

std::string precision_text(const TrainConfig& config) {
  if (config.precision.compute == Precision::kFp32) return "fp32";
  return fmt::format("bf16, matrix products in {}", kernels::bf16_matmul_arithmetic());
}

std::string ranks_text(const RunSummary& summary) {
  const int world = summary.config.layout.world();
  if (!summary.launch.has_many()) return fmt::format("{} threads of one process", world);
  return fmt::format("{} processes of {}, {} on this machine,", world, summary.launch.launcher,
                     summary.launch.local_size);
}

std::string batch_lines(const RunSummary& summary) {
  const TrainConfig& config = summary.config;
  return fmt::format(
      "batch   {} sequences of {} = {} tokens a step: {} micro-batches of {} on each of {} dp "
      "ranks\n"
      "layout  {}\n"
      "ranks   {} with {} compute threads each, {} kernels, {}\n",
      config.batch.global_batch, config.batch.seq, format_count(config.batch.tokens_per_step()),
      config.batch.num_micro_batches(config.layout), config.batch.micro_batch, config.layout.dp,
      layout_text(config.layout, config.batch), ranks_text(summary), summary.plan.threads_per_rank,
      kernels::isa_name(), precision_text(config));
}

std::string stage_text(const Pipeline& pipeline, int stage) {
  const StageLayers& layers = pipeline.stage(stage);
  std::vector<std::string> parts;
  if (stage == 0) parts.emplace_back("embedding");
  if (layers.end - layers.begin == 1) parts.push_back(fmt::format("layer {}", layers.begin));
  if (layers.end - layers.begin > 1)
    parts.push_back(fmt::format("layers {}-{}", layers.begin, layers.end - 1));
  if (pipeline.is_last(stage)) parts.emplace_back("head");
  return fmt::format("{}: {}", stage, fmt::join(parts, ", "));
}

/// "" without a pipeline.
std::string stage_lines(const RunSummary& summary) {
  const TrainConfig& config = summary.config;
  if (config.layout.pp == 1) return "";
  const auto num_micro_batches = narrow<int>(config.batch.num_micro_batches(config.layout));
  const Pipeline pipeline(config.model.spec, config.layout, num_micro_batches);
  std::vector<std::string> stages;
  for (int stage = 0; stage < pipeline.num_stages(); ++stage)
    stages.push_back(stage_text(pipeline, stage));
  return fmt::format(
      "stages  {}\n        {}: ranks wait {:.1f} % of the time if all parts of the schedule last "
      "equally long\n",
      fmt::join(stages, "; "), pipeline.schedule().name,
      100 * run_virtual_clock(pipeline.schedule(), {}).bubble_ratio());
}

/// Kinds that some rank uses.
std::vector<MemoryKind> used_kinds(const RunPlan& plan) {
  std::vector<MemoryKind> kinds;
  for (std::size_t kind = 0; kind < kNumMemoryKinds; ++kind) {
    for (const RankPrograms& rank : plan.ranks) {
      if (rank.placement.kind_bytes.at(kind) == 0) continue;
      kinds.push_back(static_cast<MemoryKind>(kind));
      break;
    }
  }
  return kinds;
}

std::string memory_table(const RunPlan& plan) {
  const std::vector<MemoryKind> kinds = used_kinds(plan);
  const Layout& layout = plan.program(0, RunPlan::kTrain).request.layout;
  const bool has_coords = layout.world() > layout.dp;
  std::vector<std::string> header = {"rank"};
  if (has_coords) header.insert(header.end(), {"pp", "dp", "cp", "tp"});
  for (const MemoryKind kind : kinds) header.emplace_back(memory_kind_name(kind));
  header.insert(header.end(), {"arena", "lower bound"});
  std::vector<std::vector<std::string>> rows;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const Placement& placement = plan.ranks[rank].placement;
    auto& row = rows.emplace_back(std::vector<std::string>{fmt::format("{}", rank)});
    if (has_coords) {
      const MeshCoord at = layout.mesh().coord_of(narrow<int>(rank));
      for (const int place : {at.pp, at.dp, at.cp, at.tp}) row.push_back(fmt::format("{}", place));
    }
    for (const MemoryKind kind : kinds) {
      row.push_back(format_bytes(placement.kind_bytes.at(static_cast<std::size_t>(kind))));
    }
    row.insert(row.end(),
               {format_bytes(placement.arena_bytes), format_bytes(placement.lower_bound_bytes)});
  }
  return "memory of each rank\n" + text_table(header, rows);
}

std::string verified_line(const RunPlan& plan) {
  Verification all{.num_ranks = plan.ranks.size(), .world = plan.ranks.size()};
  for (const RankPrograms& rank : plan.ranks) all.num_instructions += rank.num_instructions();
  return verification_text(all);
}

Json rank_json(const RunSummary& summary, int rank) {
  const RankPrograms& plan = summary.plan.ranks.at(static_cast<std::size_t>(rank));
  const MeshCoord at = summary.config.layout.mesh().coord_of(rank);
  Json bytes = Json::object();
  for (std::size_t kind = 0; kind < kNumMemoryKinds; ++kind) {
    bytes[std::string(memory_kind_name(static_cast<MemoryKind>(kind)))] =
        plan.placement.kind_bytes.at(kind);
  }
  return {{"rank", rank},
          {"coord", {{"pp", at.pp}, {"dp", at.dp}, {"cp", at.cp}, {"tp", at.tp}}},
          {"bytes", bytes},
          {"arena_bytes", plan.placement.arena_bytes},
          {"lower_bound_bytes", plan.placement.lower_bound_bytes},
          {"instructions", plan.num_instructions()}};
}

}  // namespace

std::string summary_text(const RunSummary& summary) {
  return model_lines(summary) + data_lines(summary) + batch_lines(summary) + stage_lines(summary) +
         memory_table(summary.plan) + verified_line(summary.plan);
}

std::string summary_json(const RunSummary& summary) {
  const TrainConfig& config = summary.config;
  const FlopsPerToken flops = flops_per_token(config.model.spec, config.batch.seq);
  Json ranks = Json::array();
  for (int rank = 0; rank < config.layout.world(); ++rank) {
    ranks.push_back(rank_json(summary, rank));
  }
  const Json json = {{"parameters", ParameterTable(config.model.spec).num_elems()},
                     {"flops_per_token", {{"full", flops.full()}, {"causal", flops.causal()}}},
                     {"world", config.layout.world()},
                     {"layout", layout_text(config.layout, config.batch)},
                     {"batch",
                      {{"seq", config.batch.seq},
                       {"micro_batch", config.batch.micro_batch},
                       {"global_batch", config.batch.global_batch},
                       {"num_micro_batches", config.batch.num_micro_batches(config.layout)},
                       {"tokens_per_step", config.batch.tokens_per_step()}}},
                     {"ranks", ranks},
                     {"rules", rule_names()}};
  return json.dump(2) + "\n";
}

}  // namespace trireme
