// Test only: requests of the planner's tests.
#pragma once

#include <string>

#include "trireme/cost/known_models.h"
#include "trireme/plan/plan_request.h"
#include "trireme/simulate/test_machine.h"

namespace trireme {

inline PlanRequest plan_request(const std::string& model, int devices, std::int64_t global_batch,
                                const std::string& framework = "trireme", std::int64_t seq = 4096) {
  PlanRequest request{.model_name = model,
                      .model = known_model(model).value(),
                      .spec = known_spec(model),
                      .cluster = read_cluster("h100-dgx"),
                      .profile = {},
                      .devices = devices,
                      .seq = seq,
                      .global_batch = global_batch};
  request.profile = read_profile(framework, request.cluster);
  return request;
}

/// A small model on two cores, on which every kernel and transfer takes a millisecond.
inline PlanRequest machine_request() {
  constexpr double kMillisecond = 1e-3;
  PlanRequest request{.model_name = "small",
                      .model = {},
                      .spec = resolved({.layers = 2,
                                        .hidden = 16,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .ffn = 24,
                                        .vocab = 32,
                                        .max_seq = 16}),
                      .cluster = even_machine(kMillisecond),
                      .profile = {},
                      .devices = 2,
                      .seq = 8,
                      .global_batch = 4,
                      .precision = ComputePrecision::kFp32,
                      .limits = {.recompute = Recompute::kNone}};
  request.model = shape_of(*request.spec);
  request.cluster.device.memory_bytes = 1e9;
  request.profile = read_profile("trireme", request.cluster);
  return request;
}

}  // namespace trireme
