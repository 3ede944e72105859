// A bare schedule on a virtual clock: when each op runs if ops last as long as given.
#pragma once

#include <vector>

#include "trireme/program/schedules/schedule.h"

namespace trireme {

/// Seconds (or units) of the ops of one stage. A backward in one piece lasts input + weight.
struct ScheduleCosts {
  double forward = 1;
  double input = 1;
  double weight = 1;
  double latency = 0;     ///< of a message between ranks; links are never busy
  double overlapped = 0;  ///< of a forward and a backward that run together; 0 = their sum
};

struct ScheduleTimes {
  std::vector<std::vector<double>> starts;  ///< [rank][entry of the order]
  std::vector<std::vector<double>> ends;
  double makespan = 0;
  std::vector<double> busy;  ///< by rank: sum of its ops
  /// Most micro-batches of chunks between F and B or I, and between F and B or W, by rank.
  std::vector<int> in_flight;
  std::vector<int> in_flight_until_weight;

  /// 1 - busy / makespan of the busiest rank.
  [[nodiscard]] double bubble_ratio() const;
};

/// Ranks run their orders one entry at a time, each as soon as what it needs is there. The schedule
/// satisfies check_schedule. Throws UsageError if a cost is negative or not finite, or if the ranks
/// wait for each other: the first op that cannot run is named for each rank.
[[nodiscard]] ScheduleTimes run_virtual_clock(const Schedule& schedule, const ScheduleCosts& costs);

}  // namespace trireme
