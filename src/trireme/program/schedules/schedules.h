// The schedules by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/program/schedules/schedule.h"

namespace trireme {

/// Most ranks, chunks or micro-batches of a schedule.
inline constexpr int kMaxScheduleExtent = 1 << 16;

/// What a schedule is made for.
struct ScheduleShape {
  int ranks = 1;          ///< p, of the pipeline
  int chunks = 1;         ///< v, stages that a rank holds
  int micro_batches = 1;  ///< m, of a step
  int group =
      0;  ///< interleaved: micro-batches that a chunk takes before the next; 0 = least valid
};

/// One schedule.
struct ScheduleKind {
  std::string_view name;          ///< "1f1b"
  std::string_view doc;           ///< one line with its source
  int chunks = 1;                 ///< that it needs; 0 = any number
  bool is_bidirectional = false;  ///< micro-batches enter at both ends: two copies of each stage
  /// Rule and remedy if the shape cannot be scheduled, else "". Chunks are right already.
  std::string (*refusal)(const ScheduleShape& shape) = nullptr;
  std::vector<Order> (*orders)(const ScheduleShape& shape) = nullptr;
};

/// All of them.
[[nodiscard]] const std::vector<ScheduleKind>& schedule_kinds();
/// nullptr if there is none of this name.
[[nodiscard]] const ScheduleKind* find_schedule_kind(std::string_view name);
/// Stages that all ranks hold together.
[[nodiscard]] constexpr int num_stages(const ScheduleKind& kind, const ScheduleShape& shape) {
  return shape.ranks * (kind.is_bidirectional ? 1 : shape.chunks);
}

/// The orders of all ranks. Throws UsageError for an unknown name (naming the nearest), for a
/// number of chunks that the schedule does not have, and for a number of micro-batches that it does
/// not allow, naming both numbers, the rule and a valid number.
[[nodiscard]] Schedule make_schedule(std::string_view name, const ScheduleShape& shape);

// The schedules, a file for each family.
[[nodiscard]] ScheduleKind naive_schedule();
[[nodiscard]] ScheduleKind gpipe_schedule();
[[nodiscard]] ScheduleKind gpipe_lifo_schedule();
[[nodiscard]] ScheduleKind one_f_one_b_schedule();
[[nodiscard]] ScheduleKind eager_one_f_one_b_schedule();
[[nodiscard]] ScheduleKind interleaved_schedule();
[[nodiscard]] ScheduleKind breadth_first_schedule();
[[nodiscard]] ScheduleKind zero_bubble_h1_schedule();
[[nodiscard]] ScheduleKind zero_bubble_h2_schedule();
[[nodiscard]] ScheduleKind zero_bubble_v_schedule();
[[nodiscard]] ScheduleKind dualpipe_schedule();
[[nodiscard]] ScheduleKind dualpipe_v_schedule();

}  // namespace trireme
