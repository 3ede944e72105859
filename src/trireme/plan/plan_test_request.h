// Test only: requests of the planner's tests.
#pragma once

#include <string>

#include "trireme/cost/known_models.h"
#include "trireme/plan/plan_request.h"

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

}  // namespace trireme
