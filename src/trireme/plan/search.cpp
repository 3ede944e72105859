#include "trireme/plan/search.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cost/stages.h"
#include "trireme/cost/step_time.h"
#include "trireme/plan/framework_rules.h"

namespace trireme {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t each = 1; each * each <= number; ++each) {
    if (number % each != 0) continue;
    low.push_back(each);
    if (each * each != number) high.push_back(number / each);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

bool allows(std::int64_t fixed, std::int64_t most, std::int64_t value) {
  return (fixed == 0 || value == fixed) && (most == 0 || value <= most);
}

/// What the request allows of each axis, with their product the devices.
std::vector<Degrees> degrees_of(const PlanRequest& request) {
  const PlanLimits& limits = request.limits;
  const FrameworkRules& framework = framework_rules(request.profile.name);
  const auto choices = [](std::int64_t ranks, bool has_axis, std::int64_t fixed,
                          std::int64_t most) {
    std::vector<std::int64_t> degrees = divisors(ranks);
    std::erase_if(degrees, [&](std::int64_t degree) {
      return !allows(fixed, most, degree) || (degree > 1 && !has_axis);
    });
    return degrees;
  };
  const bool has_pp = !framework.schedules.empty();
  std::vector<Degrees> all;
  for (const auto tp : choices(request.devices, framework.has_tp, limits.tp, limits.max_tp)) {
    const std::int64_t rest = request.devices / tp;
    for (const auto cp : choices(rest, framework.has_cp, limits.cp, limits.max_cp)) {
      for (const auto pp : choices(rest / cp, has_pp, limits.pp, limits.max_pp)) {
        const std::int64_t dp = rest / cp / pp;
        if (!allows(limits.dp, 0, dp)) continue;
        all.push_back({narrow<int>(tp), narrow<int>(cp), narrow<int>(pp), narrow<int>(dp)});
      }
    }
  }
  return all;
}

bool divides_tensors(const ModelShape& model, const FrameworkRules& framework, int tp) {
  const bool divides_keys =
      model.kv_heads % tp == 0 || (framework.repeats_kv_heads && tp % model.kv_heads == 0);
  return model.heads % tp == 0 && divides_keys && model.ffn % tp == 0;
}

bool is_zero_bubble(const std::string& schedule) {
  return schedule.starts_with("zb");
}

/// Micro-batches from which on the closed form of the schedule's bubble holds.
std::int64_t least_micro_batches(const std::string& schedule, int pp) {
  if (schedule == "zb-v") return 2 * std::int64_t{pp};
  if (schedule == "zb-h2") return 2 * std::int64_t{pp} - 1;
  return schedule == "interleaved" || schedule == "zb-h1" ? pp : 1;
}

}  // namespace

std::optional<PlanRule> broken_by_degrees(const PlanRequest& request,
                                          const FrameworkRules& framework, const Degrees& degrees) {
  if (!divides_tensors(request.model, framework, degrees.tp)) return PlanRule::kTensor;
  if (degrees.cp > 1 && request.seq % (2 * std::int64_t{degrees.cp}) != 0)
    return PlanRule::kContext;
  return std::nullopt;
}

std::optional<PlanRule> broken_by_stages(const ModelShape& model, const FrameworkRules& framework,
                                         int pp, std::int64_t chunks) {
  const std::int64_t stages = pp * chunks;
  if (stages > model.layers) return PlanRule::kStages;
  if (framework.needs_equal_stages && model.layers % stages != 0) return PlanRule::kStages;
  if (framework.needs_untied_stages && model.is_tied && pp > 1) return PlanRule::kTiedStages;
  return std::nullopt;
}

std::string_view plan_rule_text(PlanRule rule) {
  constexpr std::array<std::string_view, kNumPlanRules> kTexts = {
      "tp divides heads, key/value heads and ffn",
      "2 cp divides the sequence length",
      "each stage has a layer, and as many as the others where the framework wants it",
      "no tied table over a pipeline",
      "micro-batch x dp divides the global batch",
      "the schedule has the micro-batches it needs",
      "ZeRO-2 and 3 with micro-batches need backward passes in one piece",
      "a reduction that is put off to the end of the step needs several micro-batches",
      "with sequence parallelism tp divides micro-batch x length / cp",
      "the fullest rank fits its device",
      "the trainer takes the layout",
      "the placed programs fit"};
  return kTexts.at(static_cast<std::size_t>(rule));
}

bool is_better(const PricedLayout& one, const PricedLayout& other) {
  if (one.step_seconds != other.step_seconds) return one.step_seconds < other.step_seconds;
  if (one.needed_bytes != other.needed_bytes) return one.needed_bytes < other.needed_bytes;
  return one.number < other.number;
}

PlanSpace::PlanSpace(const PlanRequest& request) : request_(request) {
  const PlanLimits& limits = request.limits;
  const FrameworkRules& framework = framework_rules(request.profile.name);
  TRI_CHECK(request.devices >= 1 && request.global_batch >= 1 && request.seq >= 1);
  for (const std::int64_t micro_batch : divisors(request.global_batch)) {
    if (allows(limits.micro_batch, limits.max_micro_batch, micro_batch))
      micro_batches_.push_back(micro_batch);
  }
  for (const Recompute each : framework.recompute) {
    if (!limits.recompute || *limits.recompute == each) recompute_.push_back(each);
  }
  degrees_ = degrees_of(request);
  std::uint64_t number = 0;
  for (const Degrees& degrees : degrees_) {
    first_number_.push_back(number);
    number += count_of(degrees);
  }
  first_number_.push_back(number);
}

std::int64_t PlanSpace::num_layouts() const {
  return static_cast<std::int64_t>(first_number_.back());
}

PlanSpace::Choices PlanSpace::choices_of(const Degrees& degrees) const {
  const PlanLimits& limits = request_.limits;
  const FrameworkRules& framework = framework_rules(request_.profile.name);
  Choices choices;
  if (degrees.pp == 1) choices.schedules.push_back({.name = Layout{}.schedule});
  for (const std::string_view name : framework.schedules) {
    if (degrees.pp == 1 || (!limits.schedule.empty() && limits.schedule != name)) continue;
    if (name != "interleaved") {
      choices.schedules.push_back({.name = std::string(name)});
      continue;
    }
    const std::int64_t most = std::max<std::int64_t>(2, request_.model.layers / degrees.pp);
    for (int chunks = 2; chunks <= most; ++chunks) {
      if (limits.chunks == 0 || limits.chunks == chunks)
        choices.schedules.push_back({.name = std::string(name), .chunks = chunks});
    }
  }
  choices.shards = shards_of(degrees);
  // What changes nothing is left out: a sequence cut over one rank.
  for (const bool sp : {false, true}) {
    if (sp && (degrees.tp == 1 || !framework.has_sp)) continue;
    if (!limits.sp || *limits.sp == sp || degrees.tp == 1) choices.sp.push_back(sp);
  }
  return choices;
}

/// What changes nothing is left out: shards of one replica, and ZeRO-2 that reduces once a step,
/// which holds and sends what ZeRO-1 does.
std::vector<PlanSpace::Shards> PlanSpace::shards_of(const Degrees& degrees) const {
  const PlanLimits& limits = request_.limits;
  const FrameworkRules& framework = framework_rules(request_.profile.name);
  std::vector<Shards> all;
  for (const int zero : framework.zero) {
    const bool has_replicas = degrees.dp * degrees.cp > 1;
    if (limits.zero ? *limits.zero != zero : !has_replicas && !all.empty()) continue;
    all.push_back({.zero = zero});
    if (zero != 3 || !has_replicas) continue;
    if (request_.profile.can_put_off_reduction)
      all.push_back({.zero = zero, .reduce = GradientReduction::kStep});
    const int within_node =
        std::gcd(degrees.dp, request_.cluster.node_devices / (degrees.tp * degrees.cp));
    if (framework.has_hybrid_shards && within_node > 1 && within_node < degrees.dp)
      all.push_back({.zero = zero, .dp_shard = within_node});
  }
  return all;
}

std::uint64_t PlanSpace::count_of(const Degrees& degrees) const {
  const Choices choices = choices_of(degrees);
  return choices.schedules.size() * micro_batches_.size() * choices.inner(recompute_.size());
}

/// Through the layouts of some degrees: schedule, micro-batch, ZeRO stage, recomputation, sp.
class PlanSpace::Walk {
 public:
  /// With `visit` layouts are shown to it, else priced.
  Walk(const PlanSpace& space, std::size_t degrees_index, const Visit* visit = nullptr)
      : space_(space),
        request_(space.request_),
        visit_(visit),
        framework_(framework_rules(space.request_.profile.name)),
        degrees_(space.degrees_[degrees_index]),
        choices_(space.choices_of(degrees_)),
        number_(space.first_number_[degrees_index]) {
    workload_.model = request_.model;
    workload_.precision = request_.precision;
    workload_.batch = {.seq = request_.seq, .global_batch = request_.global_batch};
    Layout& layout = workload_.layout;
    layout.tp = degrees_.tp;
    layout.cp = degrees_.cp;
    layout.pp = degrees_.pp;
    layout.dp = degrees_.dp;
    layout.bucket_mib = request_.trainer.bucket_mib;
    // On a calibrated machine sizes are tried by make_machine_plan().
    if (layout.bucket_mib == 0 && request_.cluster.is_cpu) layout.bucket_mib = Layout{}.bucket_mib;
    layout.cp_comm = request_.trainer.cp_comm;
  }

  Searched run();
  /// The layout that is `offset` after the first.
  Workload at(std::uint64_t offset);

 private:
  void take_schedule(const Schedule& schedule) {
    workload_.layout.schedule = schedule.name;
    workload_.layout.chunks = schedule.chunks;
  }
  void take_shards(const Shards& shards);
  [[nodiscard]] bool accumulates() const {
    return workload_.num_micro_batches() > 1 && degrees_.dp * degrees_.cp > 1;
  }
  [[nodiscard]] std::optional<PlanRule> broken_by_schedule() const;
  [[nodiscard]] std::optional<PlanRule> broken_by_batch() const;
  [[nodiscard]] std::optional<PlanRule> broken_by_shards(const Shards& shards) const;
  void run_micro_batch();
  void run_shards();
  void price();
  void reject(PlanRule rule, std::uint64_t layouts) {
    found_.rejected.at(static_cast<std::size_t>(rule)) += static_cast<std::int64_t>(layouts);
    number_ += layouts;
  }

  const PlanSpace& space_;
  const PlanRequest& request_;
  const Visit* visit_;
  const FrameworkRules& framework_;
  Degrees degrees_;
  Choices choices_;
  std::uint64_t number_;
  Workload workload_;
  std::vector<StageShare> shares_;
  Searched found_;
};

/// Gradients in shards, and gathered layers dropped after each pass, with and without a pipeline:
/// what the closed form prices.
void PlanSpace::Walk::take_shards(const Shards& shards) {
  Layout& layout = workload_.layout;
  layout.zero = shards.zero;
  layout.dp_shard = shards.dp_shard;
  layout.reduce = layout.zero >= 2 && accumulates() ? shards.reduce : GradientReduction::kStep;
  layout.reshard = layout.zero == 3 && layout.pp > 1 ? Reshard::kAlways : Reshard::kAuto;
}

std::optional<PlanRule> PlanSpace::Walk::broken_by_schedule() const {
  const Layout& layout = workload_.layout;
  const std::int64_t chunks = layout.schedule == "zb-v" ? 2 : std::max(layout.chunks, 1);
  return broken_by_stages(request_.model, framework_, layout.pp, chunks);
}

std::optional<PlanRule> PlanSpace::Walk::broken_by_batch() const {
  const Layout& layout = workload_.layout;
  if (request_.global_batch % (workload_.batch.micro_batch * layout.dp) != 0)
    return PlanRule::kBatch;
  if (layout.pp > 1 &&
      workload_.num_micro_batches() < least_micro_batches(layout.schedule, layout.pp))
    return PlanRule::kMicroBatches;
  return std::nullopt;
}

std::optional<PlanRule> PlanSpace::Walk::broken_by_shards(const Shards& shards) const {
  const Layout& layout = workload_.layout;
  if (layout.reduce == GradientReduction::kMicroBatch && is_zero_bubble(layout.schedule))
    return PlanRule::kShards;
  if (shards.reduce == GradientReduction::kStep && !accumulates()) return PlanRule::kReduction;
  return std::nullopt;
}

PlanSpace::Searched PlanSpace::Walk::run() {
  const std::uint64_t inner = choices_.inner(space_.recompute_.size());
  const std::uint64_t of_schedule = space_.micro_batches_.size() * inner;
  if (const auto rule = broken_by_degrees(request_, framework_, degrees_)) {
    reject(*rule, choices_.schedules.size() * of_schedule);
    return std::move(found_);
  }
  for (const Schedule& schedule : choices_.schedules) {
    take_schedule(schedule);
    if (const auto rule = broken_by_schedule()) {
      reject(*rule, of_schedule);
      continue;
    }
    if (visit_ == nullptr) shares_ = stage_shares(workload_, request_.profile.split);
    for (const std::int64_t micro_batch : space_.micro_batches_) {
      workload_.batch.micro_batch = micro_batch;
      if (const auto rule = broken_by_batch()) {
        reject(*rule, inner);
        continue;
      }
      run_micro_batch();
    }
  }
  return std::move(found_);
}

void PlanSpace::Walk::run_micro_batch() {
  for (const Shards& shards : choices_.shards) {
    take_shards(shards);
    if (const auto rule = broken_by_shards(shards)) {
      reject(*rule, space_.recompute_.size() * choices_.sp.size());
      continue;
    }
    run_shards();
  }
}

void PlanSpace::Walk::run_shards() {
  const std::int64_t tokens = workload_.batch.micro_batch * (request_.seq / degrees_.cp);
  for (const Recompute recompute : space_.recompute_) {
    workload_.layout.recompute = recompute;
    for (const bool sp : choices_.sp) {
      workload_.layout.sp = sp;
      if (sp && tokens % degrees_.tp != 0) {
        reject(PlanRule::kSequence, 1);
        continue;
      }
      price();
    }
  }
}

void PlanSpace::Walk::price() {
  if (visit_ != nullptr) return (*visit_)(number_++, workload_);
  const Cluster& cluster = request_.cluster;
  const Estimate memory = estimate_memory(workload_, cluster, request_.profile, shares_);
  PricedLayout priced{.number = number_, .needed_bytes = memory.needed_bytes};
  if (!memory.fits) {
    if (!found_.nearest || priced.needed_bytes < found_.nearest->needed_bytes)
      found_.nearest = priced;
    return reject(PlanRule::kMemory, 1);
  }
  priced.step_seconds = step_seconds(workload_, cluster, request_.profile, shares_).total();
  found_.fitting.push_back(priced);
  ++number_;
}

Workload PlanSpace::Walk::at(std::uint64_t offset) {
  const auto digit = [&](std::size_t radix) {
    const std::uint64_t value = offset % radix;
    offset /= radix;
    return static_cast<std::size_t>(value);
  };
  workload_.layout.sp = choices_.sp.at(digit(choices_.sp.size()));
  workload_.layout.recompute = space_.recompute_.at(digit(space_.recompute_.size()));
  const Shards& shards = choices_.shards.at(digit(choices_.shards.size()));
  workload_.batch.micro_batch = space_.micro_batches_.at(digit(space_.micro_batches_.size()));
  take_schedule(choices_.schedules.at(static_cast<std::size_t>(offset)));
  take_shards(shards);
  return workload_;
}

std::size_t PlanSpace::degrees_index(std::uint64_t number) const {
  const auto after = std::upper_bound(first_number_.begin(), first_number_.end(), number);
  TRI_CHECK(after != first_number_.begin() && after != first_number_.end());
  return static_cast<std::size_t>(after - first_number_.begin() - 1);
}

Workload PlanSpace::layout_of(std::uint64_t number) const {
  const std::size_t index = degrees_index(number);
  Workload workload = Walk(*this, index).at(number - first_number_[index]);
  if (workload.layout.bucket_mib == 0) {
    workload.layout.bucket_mib = best_bucket_mib(workload, request_.cluster, request_.profile,
                                                 stage_shares(workload, request_.profile.split));
  }
  return workload;
}

PlanSpace::Searched PlanSpace::search(std::size_t degrees_index) const {
  return Walk(*this, degrees_index).run();
}

RuleCounts PlanSpace::list(std::size_t degrees_index, const Visit& visit) const {
  return Walk(*this, degrees_index, &visit).run().rejected;
}

namespace {

/// Takes over what one thread has found, in the order of the space.
void add(const PlanSpace::Searched& found, SearchResult& result) {
  result.fitting.insert(result.fitting.end(), found.fitting.begin(), found.fitting.end());
  if (found.nearest &&
      (!result.nearest || found.nearest->needed_bytes < result.nearest->needed_bytes)) {
    result.nearest = found.nearest;
  }
  for (std::size_t i = 0; i < kNumPlanRules; ++i) {
    result.rejected.at(i) += found.rejected.at(i);
    result.searched += found.rejected.at(i);
  }
  result.searched += static_cast<std::int64_t>(found.fitting.size());
}

}  // namespace

std::size_t num_threads(const SearchControl& control) {
  if (control.threads > 0) return static_cast<std::size_t>(control.threads);
  return std::max(1U, std::thread::hardware_concurrency());
}

bool for_each_on_threads(std::size_t count, const SearchControl& control,
                         const std::function<std::function<void(std::size_t)>()>& make_worker) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&](bool reports) {
    const std::function<void(std::size_t)> worker = make_worker();
    for (std::size_t i = next++; i < count && !control.is_stopped(); i = next++) {
      try {
        worker(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      ++done;
      if (reports && control.progress) control.progress(done.load(), count);
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(num_threads(control), count); ++i) {
      helpers.emplace_back([&] { work(false); });
    }
    work(true);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return done.load() == count;
}

SearchResult search(const PlanSpace& space, const SearchControl& control) {
  std::vector<PlanSpace::Searched> found(space.degrees().size());
  SearchResult result;
  result.is_stopped = !for_each_on_threads(found.size(), control, [&space, &found] {
    return [&](std::size_t i) { found[i] = space.search(i); };
  });
  for (const PlanSpace::Searched& each : found) add(each, result);
  return result;
}

}  // namespace trireme
