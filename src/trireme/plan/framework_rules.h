// Which layouts a framework runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/layout/layout.h"

namespace trireme {

/// What the planner may offer for a framework, beside what every layout must satisfy.
struct FrameworkRules {
  std::string_view name;                    ///< of its profile
  std::vector<std::string_view> schedules;  ///< of a pipeline; empty = has no pipeline
  std::vector<int> zero;                    ///< stages, ascending
  std::vector<Recompute> recompute;
  bool has_tp = true;
  bool has_sp = true;
  bool has_cp = true;
  bool has_hybrid_shards = false;    ///< ZeRO-3 within groups of replicas, with a copy in each
  bool repeats_kv_heads = false;     ///< tp may be a multiple of the key/value heads
  bool needs_equal_stages = false;   ///< pp * chunks divides the layers
  bool needs_untied_stages = false;  ///< no tied table over a pipeline
};

/// By the name of a profile; what Trireme runs for an unknown one.
[[nodiscard]] const FrameworkRules& framework_rules(std::string_view profile_name);

}  // namespace trireme
