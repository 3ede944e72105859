// Trireme's own layouts: taken by the trainer, with the memory of their programs.
#include "trireme/plan/program_check.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/plan/program_memory.h"
#include "trireme/plan/search.h"
#include "trireme/program/pipeline.h"

namespace trireme {

StageKinds stage_kinds(const KindBytes& bytes) {
  StageKinds kinds;
  for (int i = 0; i < kNumMemoryKinds; ++i) {
    kinds.push_back({memory_kind_name(static_cast<MemoryKind>(i)),
                     static_cast<double>(bytes.at(static_cast<std::size_t>(i)))});
  }
  return kinds;
}

bool is_taken_by_trainer(const ModelSpec& spec, const Workload& workload) {
  try {
    check_layout(spec, workload.layout, workload.batch);
    static_cast<void>(Pipeline(spec, workload.layout, narrow<int>(workload.num_micro_batches())));
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

BuildRequest build_request(const PlanRequest& request, const Workload& workload) {
  return {.spec = *request.spec,
          .layout = workload.layout,
          .batch = workload.batch,
          .decay_norms = request.trainer.decay_norms,
          .compute = request.precision == ComputePrecision::kFp32 ? DType::kF32 : DType::kBf16,
          .reduce = request.trainer.reduce};
}

std::optional<PlanRule> check_program(const PlanRequest& request, PlannedLayout& planned) {
  if (!request.is_for_trireme() || !request.spec) return std::nullopt;
  const Workload& workload = planned.workload;
  if (!is_taken_by_trainer(*request.spec, workload)) return PlanRule::kTrainer;
  const BuildRequest build = build_request(request, workload);
  const auto needed = [&](const KindBytes& bytes) {
    return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})) +
           planned.estimate.overhead_bytes;
  };
  const double capacity = request.cluster.device.memory_bytes;
  // The one that is likely too large first: most layouts that do not fit are refused by it.
  const KindBytes largest = stage_kind_bytes(build, planned.estimate.fullest_stage);
  if (needed(largest) > capacity) return PlanRule::kProgram;
  planned.stages.clear();
  planned.needed_bytes = 0;
  planned.is_from_program = true;
  std::vector<KindBytes> stages(static_cast<std::size_t>(workload.layout.pp), largest);
  const bool is_whole = for_each_on_threads(stages.size(), {}, [&] {
    return [&](std::size_t i) {
      const int stage = static_cast<int>(i);
      if (stage != planned.estimate.fullest_stage) stages[i] = stage_kind_bytes(build, stage);
    };
  });
  TRI_CHECK(is_whole);
  for (const KindBytes& bytes : stages) {
    planned.stages.push_back(stage_kinds(bytes));
    planned.needed_bytes = std::max(planned.needed_bytes, needed(bytes));
  }
  if (planned.needed_bytes > capacity) return PlanRule::kProgram;
  return std::nullopt;
}

}  // namespace trireme
