#include "trireme/plan/program_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/cost/memory.h"
#include "trireme/plan/search.h"
#include "trireme/program/build.h"
#include "trireme/simulate/schedule_clock.h"

namespace trireme {
namespace {

/// `request` has been checked.
Placement stage_placement(BuildRequest request, int stage, std::int64_t workspace_bytes) {
  request.rank = request.layout.mesh().rank_of({.pp = stage});
  Program program = build_train(request);
  set_workspace_bytes(program, workspace_bytes);
  return place({&program});
}

BuildRequest checked(BuildRequest request) {
  request.spec = resolved(request.spec);
  check_layout(request.spec, request.layout, request.batch);
  return request;
}

std::vector<Placement> stage_placements(const BuildRequest& given, std::int64_t workspace_bytes) {
  const BuildRequest request = checked(given);
  std::vector<Placement> placements(static_cast<std::size_t>(request.layout.pp));
  const bool is_whole = for_each_on_threads(placements.size(), {}, [&] {
    return [&](std::size_t i) {
      placements[i] = stage_placement(request, static_cast<int>(i), workspace_bytes);
    };
  });
  TRI_CHECK(is_whole);
  return placements;
}

}  // namespace

KindBytes stage_kind_bytes(const BuildRequest& request, int stage) {
  return stage_placement(checked(request), stage, 0).kind_bytes;
}

std::vector<std::int64_t> stage_arena_bytes(const BuildRequest& request,
                                            std::int64_t workspace_bytes) {
  std::vector<std::int64_t> bytes;
  for (const Placement& placement : stage_placements(request, workspace_bytes)) {
    bytes.push_back(placement.arena_bytes);
  }
  return bytes;
}

void split_by_kind(const KindBytes& kinds, Prediction& prediction) {
  const auto bytes = [&](MemoryKind kind) {
    return static_cast<double>(kinds.at(static_cast<std::size_t>(kind)));
  };
  prediction.state_bytes = bytes(MemoryKind::kParameters) + bytes(MemoryKind::kMaster) +
                           bytes(MemoryKind::kMoments) + bytes(MemoryKind::kGradients);
  prediction.activation_bytes = bytes(MemoryKind::kActivations);
}

BuildRequest build_request(const PricedCase& row) {
  const Workload& workload = row.workload;
  if (row.spec.layers == 0) {
    throw UsageError(
        "model: Trireme trains the families llama (gated) and gpt2 (one table, biases); give such "
        "sizes, or ask for another framework");
  }
  // Programs grow with both; beyond, one row would hold up a table.
  constexpr std::int64_t kMaxLayers = 1024;
  constexpr std::int64_t kMaxMicroBatches = 16384;
  if (workload.model.layers > kMaxLayers || workload.num_micro_batches() > kMaxMicroBatches) {
    throw UsageError(fmt::format(
        "{} layers, {} micro-batches: Trireme's programs are built for up to {} and {}; make mbs "
        "or dp larger",
        workload.model.layers, workload.num_micro_batches(), kMaxLayers, kMaxMicroBatches));
  }
  const bool is_bf16 = workload.precision == ComputePrecision::kBf16;
  if (!is_bf16 && workload.precision != ComputePrecision::kFp32) {
    throw UsageError(fmt::format("precision = \"{}\": Trireme computes in bf16 or fp32",
                                 precision_name(workload.precision)));
  }
  const ModelSpec spec = resolved(row.spec);
  check_layout(spec, workload.layout, workload.batch);
  return {.spec = spec,
          .layout = workload.layout,
          .batch = workload.batch,
          .compute = is_bf16 ? DType::kBf16 : DType::kF32};
}

Prediction predict_programs(const PricedCase& row, const Cluster& cluster, const Profile& profile) {
  const std::vector<Placement> placements = stage_placements(build_request(row), 0);
  const auto bytes = [](const Placement& placement) {
    return static_cast<double>(placement.arena_bytes);
  };
  Prediction result = prediction_of(ScheduleClock().estimate(
      row.workload, cluster, for_precision(profile, row.workload.precision)));
  result.first_stage_bytes = bytes(placements.front());
  result.peak_bytes = 0;
  for (const Placement& each : placements) {
    result.peak_bytes = std::max(result.peak_bytes, bytes(each));
  }
  result.fits =
      result.peak_bytes * profile.allocator_factor + overhead_bytes(row.workload, profile) <=
      cluster.device.memory_bytes;
  split_by_kind(placements.front().kind_bytes, result);
  return result;
}

}  // namespace trireme
