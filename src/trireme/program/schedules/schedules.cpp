#include "trireme/program/schedules/schedules.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"

namespace trireme {
namespace {

const ScheduleKind& kind_named(std::string_view name) {
  if (const ScheduleKind* const kind = find_schedule_kind(name)) return *kind;
  std::vector<std::string_view> names;
  for (const ScheduleKind& kind : schedule_kinds()) names.push_back(kind.name);
  throw UsageError(fmt::format("[schedule] {}: must be one of {}; did you mean {}?", name,
                               fmt::join(names, ", "), nearest_name(name, names)));
}

void check_shape(const ScheduleKind& kind, const ScheduleShape& shape) {
  for (const auto& [field, value] :
       {std::pair("pp", shape.ranks), std::pair("chunks", shape.chunks),
        std::pair("micro_batches", shape.micro_batches)}) {
    if (value >= 1 && value <= kMaxScheduleExtent) continue;
    throw UsageError(fmt::format("[schedule] {} with {} = {}: must be from 1 to {}; use {}",
                                 kind.name, field, value, kMaxScheduleExtent,
                                 value < 1 ? 1 : kMaxScheduleExtent));
  }
  const std::int64_t num_ops =
      std::int64_t{shape.ranks} * shape.chunks * std::int64_t{shape.micro_batches};
  if (num_ops > kMaxScheduleOps) {
    throw UsageError(fmt::format(
        "[schedule] {} with pp = {}, {} chunks and {} micro-batches: at most {} forwards; use less",
        kind.name, shape.ranks, shape.chunks, shape.micro_batches, kMaxScheduleOps));
  }
  if (kind.chunks != 0 && shape.chunks != kind.chunks) {
    throw UsageError(fmt::format(
        "[schedule] {} with chunks = {}: this schedule has {} on a rank; use chunks = {}",
        kind.name, shape.chunks, kind.chunks, kind.chunks));
  }
  const std::string refusal = kind.refusal == nullptr ? "" : kind.refusal(shape);
  if (refusal.empty()) return;
  throw UsageError(fmt::format("[schedule] {} with pp = {} and {} micro-batches: {}", kind.name,
                               shape.ranks, shape.micro_batches, refusal));
}

}  // namespace

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind> kinds = {naive_schedule(),
                                                  gpipe_schedule(),
                                                  gpipe_lifo_schedule(),
                                                  one_f_one_b_schedule(),
                                                  eager_one_f_one_b_schedule(),
                                                  interleaved_schedule(),
                                                  breadth_first_schedule(),
                                                  zero_bubble_h1_schedule(),
                                                  zero_bubble_h2_schedule(),
                                                  zero_bubble_v_schedule(),
                                                  dualpipe_schedule(),
                                                  dualpipe_v_schedule()};
  return kinds;
}

const ScheduleKind* find_schedule_kind(std::string_view name) {
  const auto& kinds = schedule_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [name](const ScheduleKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

Schedule make_schedule(std::string_view name, const ScheduleShape& shape) {
  const ScheduleKind& kind = kind_named(name);
  check_shape(kind, shape);
  return {.name = std::string(name),
          .num_stages = num_stages(kind, shape),
          .num_micro_batches = shape.micro_batches,
          .orders = kind.orders(shape)};
}

}  // namespace trireme
