#include "trireme/plan/plan_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/plan/framework_rules.h"

namespace trireme {
namespace {

void check_counts(const PlanRequest& request) {
  constexpr std::int64_t kMost = 1'000'000;  // far beyond any machine; divisors are tried
  for (const auto& [name, value] :
       {std::pair("devices", std::int64_t{request.devices}), std::pair("seq", request.seq),
        std::pair("global-batch", request.global_batch)}) {
    if (value >= 1 && value <= (name == std::string_view("devices") ? kMost : kMost * 1000))
      continue;
    throw UsageError(fmt::format("[plan] {} = {}: must be from 1 to {}; correct it", name, value,
                                 name == std::string_view("devices") ? kMost : kMost * 1000));
  }
}

void check_schedule(const PlanRequest& request) {
  const std::string& schedule = request.limits.schedule;
  const auto& known = framework_rules(request.profile.name).schedules;
  if (schedule.empty() || std::find(known.begin(), known.end(), schedule) != known.end()) return;
  throw UsageError(fmt::format("[plan] schedule = {}: the planner knows {} of {}; use one of them",
                               schedule, fmt::join(known, ", "), request.profile.name));
}

/// Rotary positions go on beyond what the model was made for; a table of them ends.
void check_positions(const PlanRequest& request) {
  const std::int64_t positions = request.model.positions;
  if (positions == 0 || request.seq <= positions) return;
  throw UsageError(
      fmt::format("[plan] seq = {} with {} learned positions of {}: a sequence must not be longer; "
                  "use seq = {}",
                  request.seq, positions, request.model_name, positions));
}

void check_trireme(const PlanRequest& request) {
  if (!request.spec) {
    throw UsageError(fmt::format(
        "[plan] model = {} with framework = trireme: only priced, Trireme trains Llama and GPT-2 "
        "families; use another framework",
        request.model_name));
  }
  if (request.spec->max_seq > 0 && request.seq > request.spec->max_seq) {
    throw UsageError(
        fmt::format("[plan] seq = {} with max_seq = {} of {}: a sequence must not be longer; use "
                    "seq = {}",
                    request.seq, request.spec->max_seq, request.model_name, request.spec->max_seq));
  }
  if (request.precision != ComputePrecision::kBf16 &&
      request.precision != ComputePrecision::kFp32) {
    throw UsageError(fmt::format(
        "[plan] precision = {} with framework = trireme: must be bf16 or fp32; use bf16",
        precision_name(request.precision)));
  }
}

}  // namespace

void check_request(const PlanRequest& request) {
  if (request.cluster.is_cpu && !request.is_for_trireme()) {
    throw UsageError(fmt::format(
        "[plan] framework = {} with cluster = {}: a calibrated machine has prices of Trireme's own "
        "programs alone; use framework = trireme",
        request.profile.name, request.cluster.name));
  }
  check_counts(request);
  check_schedule(request);
  check_positions(request);
  if (request.is_for_trireme()) check_trireme(request);
}

}  // namespace trireme
