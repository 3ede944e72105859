#include "trireme/plan/machine_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cost/memory.h"
#include "trireme/plan/program_check.h"
#include "trireme/simulate/layout_price.h"
#include "trireme/simulate/step_terms.h"

namespace trireme {
namespace {

int threads_of(const PlanRequest& request, int ranks) {
  if (request.trainer.threads_per_rank > 0) return request.trainer.threads_per_rank;
  return std::max(1, request.cluster.node_devices / ranks);
}

/// What a layout has chosen within its cut.
struct Choice {
  int schedule = 0;     ///< in the order in which the space lists them, with their chunks
  int micro_batch = 0;  ///< of the cut's micro-batches, ascending
  int shards = 0;       ///< ZeRO stage, with a reduction once a step as the higher of two
  int recompute = 0;
  int sp = 0;
  bool operator==(const Choice&) const = default;
};

/// They differ in one choice; micro-batches by one place.
bool are_neighbours(const Choice& one, const Choice& other) {
  const int micro_batches = std::abs(one.micro_batch - other.micro_batch);
  return micro_batches <= 1 &&
         micro_batches + int{one.schedule != other.schedule} + int{one.shards != other.shards} +
                 int{one.recompute != other.recompute} + int{one.sp != other.sp} ==
             1;
}

enum class State : std::uint8_t { kUnknown, kFits, kTooLarge, kRefused };

struct Item {
  std::uint64_t number = 0;  ///< in its space
  std::size_t cut = 0;
  Choice choice;
  double work = 0;
  State state = State::kUnknown;
  bool is_expanded = false;  ///< its neighbours have been asked for
  double step_seconds = 0;
  double bytes = 0;  ///< of all ranks
};

/// Layouts with the same degrees: a run of items.
struct Cut {
  std::size_t space = 0;
  int ranks = 1;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Those that fit by time, then the others by bytes; then as they are listed.
bool is_before(const Item& one, const Item& other) {
  return std::tuple(one.state, one.step_seconds, one.bytes) <
         std::tuple(other.state, other.step_seconds, other.bytes);
}

class MachineSearch {
 public:
  MachineSearch(const PlanRequest& request, const SearchControl& control, double most_work)
      : request_(request), control_(control), most_work_(most_work) {
    for (int ranks = request.takes_fewer ? 1 : request.devices; ranks <= request.devices; ++ranks) {
      requests_.push_back(request);
      requests_.back().devices = ranks;
    }
    for (const PlanRequest& each : requests_) spaces_.emplace_back(each);
    for (std::size_t space = 0; space < spaces_.size(); ++space) {
      searched_ += spaces_[space].num_layouts();
      for (std::size_t i = 0; i < spaces_[space].degrees().size(); ++i) list(space, i);
    }
    for (const Item& item : items_) all_work_ += item.work;
  }

  void run() {
    price(plainest(), std::numeric_limits<double>::infinity());
    for (auto best = best_open(); best && has_work(); best = best_open()) {
      items_[*best].is_expanded = true;
      price(neighbours(*best), most_work_);
    }
    std::vector<std::size_t> all(items_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (has_work()) price(all, most_work_);  // what no chain of neighbours reaches
  }

  /// Without the layouts that are offered.
  [[nodiscard]] Plan counts() const {
    Plan plan{.searched = searched_,
              .rejected = rejected_,
              .num_fitting = count(State::kFits),
              .not_priced = count(State::kUnknown),
              .layouts = {},
              .pareto = {},
              .is_stopped = control_.is_stopped()};
    plan.rejected.at(static_cast<std::size_t>(PlanRule::kTrainer)) += count(State::kRefused);
    plan.rejected.at(static_cast<std::size_t>(PlanRule::kProgram)) += count(State::kTooLarge);
    return plan;
  }
  /// Items that fit, best first.
  [[nodiscard]] std::vector<std::size_t> ranked() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].state == State::kFits) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return is_before(items_[a], items_[b]); });
    return order;
  }
  /// Of those that do not fit, the smallest.
  [[nodiscard]] std::optional<std::size_t> nearest() const {
    return least([](const Item& item) { return item.state == State::kTooLarge; });
  }
  [[nodiscard]] const Item& item(std::size_t index) const { return items_[index]; }
  [[nodiscard]] PlannedLayout layout_of(std::size_t index) const {
    return machine_layout(request_, workload_of(items_[index]));
  }

 private:
  void list(std::size_t space, std::size_t degrees_index);
  [[nodiscard]] std::vector<std::size_t> plainest() const;
  [[nodiscard]] std::vector<std::size_t> neighbours(std::size_t of) const;
  void price(const std::vector<std::size_t>& wanted, double most_work);
  void price_item(Item& item) const;
  template <typename IsMeant>
  [[nodiscard]] std::optional<std::size_t> least(IsMeant is_meant) const;

  [[nodiscard]] Workload workload_of(const Item& item) const {
    return spaces_[cuts_[item.cut].space].layout_of(item.number);
  }
  /// The best one that was priced and whose neighbours have not been asked for.
  [[nodiscard]] std::optional<std::size_t> best_open() const {
    return least([](const Item& item) {
      return !item.is_expanded && (item.state == State::kFits || item.state == State::kTooLarge);
    });
  }
  [[nodiscard]] bool has_work() const { return work_ < most_work_ && !control_.is_stopped(); }
  [[nodiscard]] std::int64_t count(State state) const {
    return std::count_if(items_.begin(), items_.end(),
                         [&](const Item& item) { return item.state == state; });
  }

  const PlanRequest& request_;
  const SearchControl& control_;
  const double most_work_;
  std::vector<PlanRequest> requests_;  ///< by number of ranks; spaces refer to them
  std::vector<PlanSpace> spaces_;
  std::vector<Cut> cuts_;
  std::vector<Item> items_;
  RuleCounts rejected_{};
  std::int64_t searched_ = 0;
  double work_ = 0, all_work_ = 0;
};

void MachineSearch::list(std::size_t space, std::size_t degrees_index) {
  Cut cut{.space = space, .ranks = requests_[space].devices, .begin = items_.size()};
  std::map<std::pair<std::string, int>, int> schedules;
  std::vector<std::int64_t> micro_batches;  // by item
  const RuleCounts refused =
      spaces_[space].list(degrees_index, [&](std::uint64_t number, const Workload& workload) {
        const Layout& layout = workload.layout;
        const auto [schedule, is_new] =
            schedules.try_emplace({layout.schedule, layout.chunks}, narrow<int>(schedules.size()));
        items_.push_back({.number = number,
                          .cut = cuts_.size(),
                          .choice = {.schedule = schedule->second,
                                     .shards = 2 * layout.zero +
                                               int{holds_gradients(workload, request_.profile)},
                                     .recompute = static_cast<int>(layout.recompute),
                                     .sp = int{layout.sp}},
                          .work = pricing_work(workload)});
        micro_batches.push_back(workload.batch.micro_batch);
      });
  for (std::size_t rule = 0; rule < kNumPlanRules; ++rule) rejected_.at(rule) += refused.at(rule);
  const std::set<std::int64_t> ascending(micro_batches.begin(), micro_batches.end());
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    items_[cut.begin + i].choice.micro_batch =
        narrow<int>(std::distance(ascending.begin(), ascending.find(micro_batches[i])));
  }
  cut.end = items_.size();
  if (cut.end > cut.begin) cuts_.push_back(cut);
}

/// Of each cut the first schedule, ZeRO stage and recomputation, with the fewest micro-batches.
std::vector<std::size_t> MachineSearch::plainest() const {
  std::vector<std::size_t> order(cuts_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto idle_cores = [&](const Cut& cut) {
    return std::max(0, request_.cluster.node_devices - cut.ranks * threads_of(request_, cut.ranks));
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(idle_cores(cuts_[a]), cuts_[a].ranks) <
           std::pair(idle_cores(cuts_[b]), cuts_[b].ranks);
  });
  std::vector<std::size_t> result;
  for (const std::size_t i : order) {
    const auto begin = items_.begin() + static_cast<std::ptrdiff_t>(cuts_[i].begin);
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(cuts_[i].end);
    const auto rank_of = [](const Item& item) {
      const Choice& choice = item.choice;
      return std::tuple(choice.schedule, choice.shards, choice.recompute, choice.sp,
                        -choice.micro_batch);
    };
    const auto first = std::min_element(
        begin, end, [&](const Item& a, const Item& b) { return rank_of(a) < rank_of(b); });
    result.push_back(static_cast<std::size_t>(first - items_.begin()));
  }
  return result;
}

std::vector<std::size_t> MachineSearch::neighbours(std::size_t of) const {
  const Cut& cut = cuts_[items_[of].cut];
  std::vector<std::size_t> result;
  for (std::size_t i = cut.begin; i < cut.end; ++i) {
    if (are_neighbours(items_[of].choice, items_[i].choice)) result.push_back(i);
  }
  return result;
}

template <typename IsMeant>
std::optional<std::size_t> MachineSearch::least(IsMeant is_meant) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (is_meant(items_[i]) && (!best || is_before(items_[i], items_[*best]))) best = i;
  }
  return best;
}

/// Those that are unknown, as far as the work goes, on several threads.
void MachineSearch::price(const std::vector<std::size_t>& wanted, double most_work) {
  std::vector<std::size_t> batch;
  for (const std::size_t i : wanted) {
    if (items_[i].state != State::kUnknown || work_ + items_[i].work > most_work) continue;
    work_ += items_[i].work;
    batch.push_back(i);
  }
  SearchControl silent = control_;
  silent.progress = {};
  static_cast<void>(for_each_on_threads(
      batch.size(), silent, [&] { return [&](std::size_t i) { price_item(items_[batch[i]]); }; }));
  if (control_.progress) {
    const double all = std::max(work_, std::min(all_work_, most_work_));
    control_.progress(static_cast<std::size_t>(work_), static_cast<std::size_t>(all));
  }
}

void MachineSearch::price_item(Item& item) const {
  const Workload workload = workload_of(item);
  if (!is_taken_by_trainer(*request_.spec, workload)) {
    item.state = State::kRefused;
    return;
  }
  const ProgramPrice price =
      price_layout(build_request(request_, workload), threads_of(request_, workload.layout.world()),
                   request_.cluster);
  item.bytes = std::accumulate(price.arena_bytes.begin(), price.arena_bytes.end(), 0.0);
  item.state = item.bytes <= request_.machine_bytes() ? State::kFits : State::kTooLarge;
  if (item.state == State::kFits) item.step_seconds = price.step_seconds;
}

/// As make_plan: the best of each cut first.
std::vector<std::size_t> selected(const MachineSearch& search,
                                  const std::vector<std::size_t>& ranked, std::size_t top) {
  std::vector<std::size_t> result, others;
  std::set<std::size_t> cuts;
  for (const std::size_t i : ranked) {
    const bool is_new = cuts.insert(search.item(i).cut).second;
    (is_new ? result : others).push_back(i);
  }
  result.insert(result.end(), others.begin(), others.end());
  result.resize(std::min(result.size(), top));
  std::stable_sort(result.begin(), result.end(), [&](std::size_t a, std::size_t b) {
    return is_before(search.item(a), search.item(b));
  });
  return result;
}

std::int64_t meetings_of(const Program& program, int threads) {
  std::int64_t meetings = 0;
  for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
    const bool meets = instruction.comm ? transfer_call(program, instruction).ranks >= 2
                                        : threads > 1 && instruction.stream == Stream::kCompute;
    if (meets) ++meetings;
  });
  return meetings;
}

/// The layout with the size of buckets that makes its step shortest; as given where sizes change
/// nothing.
PlannedLayout with_best_buckets(const PlanRequest& request, PlannedLayout planned) {
  const Layout& layout = planned.workload.layout;
  if (layout.dp * layout.cp == 1 || layout.zero == 3) return planned;
  for (const double mib : {1.0, 4.0, 100.0}) {
    Workload workload = planned.workload;
    workload.layout.bucket_mib = mib;
    PlannedLayout other = machine_layout(request, workload);
    if (other.step_seconds() < planned.step_seconds() && spare_bytes(request, other) >= 0)
      planned = std::move(other);
  }
  return planned;
}

/// Arena of each rank of the pipeline, of its fullest rank.
void add_memory(const StepSimulation& simulation, PlannedLayout& planned) {
  const Layout& layout = planned.workload.layout;
  std::vector<const Placement*> fullest(static_cast<std::size_t>(layout.pp));
  for (std::size_t rank = 0; rank < simulation.placements.size(); ++rank) {
    const Placement& placement = simulation.placements[rank];
    const MeshCoord at = layout.mesh().coord_of(narrow<int>(rank));
    const Placement*& stage = fullest.at(static_cast<std::size_t>(at.pp));
    if (stage == nullptr || placement.arena_bytes > stage->arena_bytes) stage = &placement;
    const auto bytes = static_cast<double>(placement.arena_bytes);
    planned.needed_bytes = std::max(planned.needed_bytes, bytes);
    planned.machine_bytes += bytes;
  }
  for (const Placement* const stage : fullest)
    planned.stages.push_back(stage_kinds(stage->kind_bytes));
  planned.is_from_program = true;
}

}  // namespace

double pricing_work(const Workload& workload) {
  const Layout& layout = workload.layout;
  return static_cast<double>(layout.world()) / layout.pp *
         static_cast<double>(workload.model.layers * (workload.num_micro_batches() + 1));
}

PlannedLayout machine_layout(const PlanRequest& request, const Workload& workload) {
  PlannedLayout planned;
  planned.workload = workload;
  planned.cores = request.cluster.node_devices;
  planned.threads_per_rank = threads_of(request, workload.layout.world());
  const StepSimulation simulation =
      simulate_ranks(build_request(request, workload), planned.threads_per_rank, request.cluster);
  planned.estimate.seconds = step_terms(simulation);
  for (const Program& program : simulation.programs)
    planned.meetings = std::max(planned.meetings, meetings_of(program, planned.threads_per_rank));
  add_memory(simulation, planned);
  return planned;
}

std::size_t steadiest(const Plan& plan) {
  TRI_CHECK(!plan.layouts.empty());
  const double most = plan.layouts.front().step_seconds() * (1 + kMedianStepError);
  std::size_t best = 0;
  for (std::size_t i = 1; i < plan.layouts.size(); ++i) {
    const PlannedLayout& each = plan.layouts[i];
    if (each.step_seconds() < most && each.meetings < plan.layouts[best].meetings) best = i;
  }
  return best;
}

Plan make_machine_plan(const PlanRequest& request, const PlanOptions& options, double most_work) {
  MachineSearch search(request, options.control, most_work);
  search.run();
  Plan plan = search.counts();
  const std::vector<std::size_t> ranked = search.ranked();
  for (const std::size_t i : selected(search, ranked, options.top)) {
    if (plan.is_stopped && !plan.layouts.empty()) break;
    plan.layouts.push_back(search.layout_of(i));
    if (request.trainer.bucket_mib == 0 && !plan.is_stopped)
      plan.layouts.back() = with_best_buckets(request, std::move(plan.layouts.back()));
  }
  std::stable_sort(plan.layouts.begin(), plan.layouts.end(), is_faster);
  if (options.has_pareto && !plan.is_stopped) {
    double least_bytes = 0;
    for (const std::size_t i : ranked) {
      if (!plan.pareto.empty() && search.item(i).bytes >= least_bytes) continue;
      least_bytes = search.item(i).bytes;
      plan.pareto.push_back(search.layout_of(i));
    }
  }
  const auto nearest = search.nearest();
  if (plan.layouts.empty() && nearest) plan.nearest = search.layout_of(*nearest);
  return plan;
}

}  // namespace trireme
