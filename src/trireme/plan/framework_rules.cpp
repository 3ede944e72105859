#include "trireme/plan/framework_rules.h"

#include <algorithm>

namespace trireme {
namespace {

const std::vector<FrameworkRules>& all_rules() {
  constexpr Recompute kNone = Recompute::kNone;
  constexpr Recompute kSelective = Recompute::kSelective;
  constexpr Recompute kFull = Recompute::kFull;
  // Read from the sources of each: torchtitan b5bcd76 (config/configs.py, distributed/),
  // Megatron-LM d98e8a6 (training/arguments.py, core/model_parallel_config.py,
  // core/pipeline_parallel/ schedules.py), nanotron 2411b02 (config/parallelism_config.py), PyTorch
  // FSDP as llm-foundry configures it, and the README of the zero-bubble fork of Megatron-LM. The
  // schedules of Trireme are those whose time and memory have a closed form.
  static const std::vector<FrameworkRules> all = {
      {.name = "trireme",
       .schedules = {"1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "gpipe"},
       .zero = {0, 1, 2, 3},
       .recompute = {kNone, kSelective, kFull},
       .has_hybrid_shards = true},
      {.name = "nanotron",
       .schedules = {"1f1b", "gpipe"},
       .zero = {0, 1},
       .recompute = {kNone, kFull}},
      {.name = "megatron",
       .schedules = {"1f1b", "interleaved"},
       .zero = {0, 1},
       .recompute = {kNone, kSelective, kFull},
       .repeats_kv_heads = true,
       .needs_equal_stages = true},
      {.name = "megatron-2022",
       .schedules = {"1f1b", "interleaved"},
       .zero = {0},
       .recompute = {kNone, kSelective, kFull},
       .has_cp = false,
       .needs_equal_stages = true},
      {.name = "zero-bubble",
       .schedules = {"1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"},
       .zero = {0, 1},
       .recompute = {kNone, kSelective, kFull},
       .has_cp = false,
       .needs_equal_stages = true},
      {.name = "torchtitan",
       .schedules = {"1f1b", "interleaved", "gpipe", "zb-v"},
       .zero = {3},
       .recompute = {kNone, kSelective, kFull},
       .has_hybrid_shards = true,
       .needs_untied_stages = true},
      {.name = "fsdp",
       .schedules = {},
       .zero = {2, 3},
       .recompute = {kNone, kFull},
       .has_tp = false,
       .has_sp = false,
       .has_cp = false},
  };
  return all;
}

}  // namespace

const FrameworkRules& framework_rules(std::string_view profile_name) {
  const auto& all = all_rules();
  const auto found = std::find_if(all.begin(), all.end(), [&](const FrameworkRules& each) {
    return each.name == profile_name;
  });
  return found == all.end() ? all.front() : *found;
}

}  // namespace trireme
