// Test only: layouts that are launched, by name.
#pragma once

#include <ostream>
#include <string>

#include "trireme/cost/known_models.h"
#include "trireme/plan/launch/launch.h"

namespace trireme {

inline void PrintTo(const LaunchRequest& request, std::ostream* out) {
  *out << request.model_name << ' ' << layout_text(request.layout, request.batch);
}

/// A model of models/*.toml on `nodes` nodes, with `layout_text`'s fields over the defaults.
inline LaunchRequest launch_request(const std::string& model, const std::string& layout,
                                    std::int64_t global_batch, int nodes = 1) {
  LaunchRequest request{.model_name = model, .spec = known_spec(model).value()};
  request.batch = {.seq = request.spec.max_seq, .micro_batch = 1, .global_batch = global_batch};
  parse_layout_text(layout, request.layout, request.batch);
  request.setting.nodes = nodes;
  request.setting.devices_per_node = request.layout.world() / nodes;
  request.setting.warmup_steps = 100;
  return request;
}

}  // namespace trireme
