#include "trireme/plan/program_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/cost/memory.h"
#include "trireme/program/build.h"
#include "trireme/program/place.h"

namespace trireme {

std::vector<std::int64_t> stage_arena_bytes(BuildRequest request, std::int64_t workspace_bytes) {
  request.spec = resolved(request.spec);
  check_layout(request.spec, request.layout, request.batch);
  const Mesh mesh = request.layout.mesh();
  std::vector<std::int64_t> bytes;
  for (int stage = 0; stage < request.layout.pp; ++stage) {
    request.rank = mesh.rank_of({.pp = stage});
    Program program = build_train(request);
    set_workspace_bytes(program, workspace_bytes);
    bytes.push_back(place({&program}).arena_bytes);
  }
  return bytes;
}

BuildRequest build_request(const PricedCase& row) {
  const Workload& workload = row.workload;
  if (row.spec.layers == 0) {
    throw UsageError(
        "model: Trireme trains the families llama (gated) and gpt2 (one table, biases); give such "
        "sizes, or ask for another framework");
  }
  const bool is_bf16 = workload.precision == ComputePrecision::kBf16;
  if (!is_bf16 && workload.precision != ComputePrecision::kFp32) {
    throw UsageError(fmt::format("precision = \"{}\": Trireme computes in bf16 or fp32",
                                 precision_name(workload.precision)));
  }
  return {.spec = resolved(row.spec),
          .layout = workload.layout,
          .batch = workload.batch,
          .compute = is_bf16 ? DType::kBf16 : DType::kF32};
}

Prediction predict_programs(const PricedCase& row, const Cluster& cluster, const Profile& profile) {
  const std::vector<std::int64_t> bytes = stage_arena_bytes(build_request(row), 0);
  Prediction result = closed_form_prediction(row, cluster, profile);
  const auto peak = static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
  result.first_stage_bytes = static_cast<double>(bytes.front());
  result.peak_bytes = peak;
  result.fits = peak * profile.allocator_factor + overhead_bytes(row.workload, profile) <=
                cluster.device.memory_bytes;
  return result;
}

}  // namespace trireme
