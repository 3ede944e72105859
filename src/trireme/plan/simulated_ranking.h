// The best layouts of a search, ranked anew by the orders of their schedules.
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/plan/search.h"

namespace trireme {

/// Of this many layouts that are best in closed form the pipelines are simulated, with the sizes of
/// buckets that suit them.
inline constexpr std::size_t kNumSimulated = 4000;

/// `ranked` is best first; of its first kNumSimulated the steps become those of ScheduleClock, and
/// they are sorted anew. A signal ends it early, with `ranked` as it was.
void rank_by_simulation(const PlanRequest& request, const PlanSpace& space,
                        std::vector<PricedLayout>& ranked, const SearchControl& control);

}  // namespace trireme
