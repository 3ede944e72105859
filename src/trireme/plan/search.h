// All layouts of a request: which rules refuse them, and what the others cost.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trireme/cost/estimate.h"
#include "trireme/plan/framework_rules.h"
#include "trireme/plan/plan_request.h"

namespace trireme {

/// Rules in the order in which a layout meets them; the first that it breaks counts it.
enum class PlanRule : std::uint8_t {
  kTensor,        ///< tp divides heads, key/value heads and ffn
  kContext,       ///< 2 cp divides the length
  kStages,        ///< a layer for each stage, as many each where the framework wants it so
  kTiedStages,    ///< the framework has no tied table over a pipeline
  kBatch,         ///< micro-batch x dp divides the global batch
  kMicroBatches,  ///< enough micro-batches for the schedule
  kShards,        ///< gradients sharded per micro-batch need whole backward passes
  kReduction,     ///< a reduction that is put off to the step's end needs micro-batches
  kSequence,      ///< with sp, tp divides micro-batch x length / cp
  kMemory,        ///< the fullest rank fits its device, in closed form
  kTrainer,       ///< `trireme train` takes it
  kProgram,       ///< the placed programs fit the device, or the calibrated machine
};
inline constexpr std::size_t kNumPlanRules = 12;
[[nodiscard]] std::string_view plan_rule_text(PlanRule rule);

using RuleCounts = std::array<std::int64_t, kNumPlanRules>;

struct Degrees {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int dp = 1;
  bool operator==(const Degrees&) const = default;
};

/// A layout that was priced. Which one: the space's layout_of().
struct PricedLayout {
  std::uint64_t number = 0;  ///< in the order of the space
  double step_seconds = 0;   ///< 0 = not priced: does not fit
  double needed_bytes = 0;   ///< of the device
};

/// Every combination of a request's choices, numbered.
class PlanSpace {
 public:
  explicit PlanSpace(const PlanRequest& request);

  [[nodiscard]] const std::vector<Degrees>& degrees() const { return degrees_; }
  [[nodiscard]] std::int64_t num_layouts() const;
  /// Index of the degrees of a number.
  [[nodiscard]] std::size_t degrees_index(std::uint64_t number) const;
  /// The layout of a number, with its batch, and with the best size of buckets if that is free.
  [[nodiscard]] Workload layout_of(std::uint64_t number) const;

  struct Searched {
    std::vector<PricedLayout> fitting;
    std::optional<PricedLayout> nearest = {};  ///< of those that do not fit, the smallest
    RuleCounts rejected{};
  };
  /// Goes through all layouts of the degrees with this index.
  [[nodiscard]] Searched search(std::size_t degrees_index) const;

  /// Told the number and the layout.
  using Visit = std::function<void(std::uint64_t, const Workload&)>;
  /// Shows the layouts of the degrees with this index that all rules but memory's leave, in their
  /// order and without a price; returns what the rules refuse.
  [[nodiscard]] RuleCounts list(std::size_t degrees_index, const Visit& visit) const;

 private:
  struct Schedule {
    std::string name;
    int chunks = 0;
  };
  struct Shards {
    int zero = 0;
    GradientReduction reduce = GradientReduction::kMicroBatch;  ///< of ZeRO-2 and 3
    int dp_shard = 0;
  };
  /// Choices that some degrees leave.
  struct Choices {
    std::vector<Schedule> schedules;
    std::vector<Shards> shards;
    std::vector<bool> sp;
    [[nodiscard]] std::uint64_t inner(std::size_t recompute) const {
      return shards.size() * sp.size() * recompute;
    }
  };
  class Walk;

  [[nodiscard]] Choices choices_of(const Degrees& degrees) const;
  [[nodiscard]] std::vector<Shards> shards_of(const Degrees& degrees) const;
  [[nodiscard]] std::uint64_t count_of(const Degrees& degrees) const;

  const PlanRequest& request_;
  std::vector<Degrees> degrees_;
  std::vector<std::uint64_t> first_number_;  ///< by degrees
  std::vector<std::int64_t> micro_batches_;
  std::vector<Recompute> recompute_;
};

struct SearchControl {
  int threads = 0;  ///< 0 = as many as the machine has; the result is the same
  /// Called by one thread, now and then.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
  const std::atomic<int>* stop = nullptr;  ///< not 0: end with what has been found
  [[nodiscard]] bool is_stopped() const { return stop != nullptr && stop->load() != 0; }
};

[[nodiscard]] std::size_t num_threads(const SearchControl& control);

/// Calls a worker for each of `count` numbers, on the control's threads, each with a worker of its
/// own. False if the signal ended it before the last; throws what the first of them threw.
[[nodiscard]] bool for_each_on_threads(
    std::size_t count, const SearchControl& control,
    const std::function<std::function<void(std::size_t)>()>& make_worker);

struct SearchResult {
  std::int64_t searched = 0;            ///< layouts that were looked at
  std::vector<PricedLayout> fitting;    ///< by number
  std::optional<PricedLayout> nearest;  ///< of those that do not fit, the smallest
  RuleCounts rejected{};
  bool is_stopped = false;
};

[[nodiscard]] SearchResult search(const PlanSpace& space, const SearchControl& control);

/// The rule that no layout of these degrees can keep.
[[nodiscard]] std::optional<PlanRule> broken_by_degrees(const PlanRequest& request,
                                                        const FrameworkRules& framework,
                                                        const Degrees& degrees);
/// The rule that no pipeline of `pp` ranks with as many chunks each can keep.
[[nodiscard]] std::optional<PlanRule> broken_by_stages(const ModelShape& model,
                                                       const FrameworkRules& framework, int pp,
                                                       std::int64_t chunks);

/// Ordered by time, then by memory, then by number.
[[nodiscard]] bool is_better(const PricedLayout& one, const PricedLayout& other);

}  // namespace trireme
