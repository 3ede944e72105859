#include "trireme/plan/simulated_ranking.h"

#include <algorithm>
#include <memory>

#include "trireme/cost/stages.h"
#include "trireme/simulate/schedule_clock.h"

namespace trireme {

void rank_by_simulation(const PlanRequest& request, const PlanSpace& space,
                        std::vector<PricedLayout>& ranked, const SearchControl& control) {
  std::vector<PricedLayout> best(
      ranked.begin(),
      ranked.begin() + static_cast<std::ptrdiff_t>(std::min(ranked.size(), kNumSimulated)));
  // Neighbours in the space have the same schedule: its orders are made once for all of them.
  std::sort(best.begin(), best.end(),
            [](const PricedLayout& a, const PricedLayout& b) { return a.number < b.number; });
  constexpr std::size_t kBlock = 32;
  SearchControl silent = control;
  silent.progress = {};
  const auto make_worker = [&]() -> std::function<void(std::size_t)> {
    return [&, clock = std::make_shared<ScheduleClock>()](std::size_t block) {
      const std::size_t end = std::min(best.size(), (block + 1) * kBlock);
      for (std::size_t i = block * kBlock; i < end; ++i) {
        const Workload workload = space.layout_of(best[i].number);
        best[i].step_seconds = clock
                                   ->step_seconds(workload, request.cluster, request.profile,
                                                  stage_shares(workload, request.profile.split))
                                   .total();
      }
    };
  };
  if (!for_each_on_threads((best.size() + kBlock - 1) / kBlock, silent, make_worker)) return;
  std::sort(best.begin(), best.end(), is_better);
  std::copy(best.begin(), best.end(), ranked.begin());
}

}  // namespace trireme
