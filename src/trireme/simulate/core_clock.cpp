#include "trireme/simulate/core_clock.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

/// One run of the clock.
class Run {
 public:
  Run(const RendezvousSystem& system, const std::vector<std::vector<CoreOp>>& ops, int num_cores,
      double wake_seconds)
      : num_cores_(num_cores), wake_seconds_(wake_seconds) {
    TRI_CHECK(system.ranks.size() == ops.size() && num_cores >= 1);
    for (std::size_t rank = 0; rank < ops.size(); ++rank) add_rank(rank, system, ops[rank]);
    clock_.busy.assign(ops.size(), 0.0);
  }

  CoreClock run() {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (nodes_[node].num_before == 0) starts_.emplace(0.0, node);
    }
    while (!starts_.empty() || !running_.empty()) {
      start_what_is_due();
      advance();
    }
    TRI_CHECK(num_done_ == nodes_.size());
    clock_.makespan = now_;
    return clock_;
  }

 private:
  struct Node {
    std::size_t rank = 0;
    int queue = 0;
    CoreOp op;
    int num_before = 0;  ///< ops that must complete first
    std::vector<std::size_t> next = {};
    std::vector<std::size_t> meets = {};
    int num_to_meet = 0;
    double left = 1;  ///< share of the op that is still to do
  };
  struct Meeting {
    std::vector<std::size_t> members = {};
    int num_arrived = 0;
  };

  void add_rank(std::size_t rank, const RendezvousSystem& system, const std::vector<CoreOp>& ops) {
    TRI_CHECK(system.ranks[rank].size() == ops.size());
    const std::size_t first = nodes_.size();
    std::map<int, std::size_t> last;  // by queue
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const RendezvousOp& op = system.ranks[rank][i];
      const std::size_t node = nodes_.size();
      nodes_.push_back({.rank = rank, .queue = op.queue, .op = ops[i]});
      if (const auto before = last.find(op.queue); before != last.end())
        order(before->second, node);
      last[op.queue] = node;
      for (const int before : op.after) order(first + static_cast<std::size_t>(before), node);
      for (const int number : op.meets) {
        const auto meeting = static_cast<std::size_t>(number);
        if (meeting >= meetings_.size()) meetings_.resize(meeting + 1);
        meetings_[meeting].members.push_back(node);
        nodes_[node].meets.push_back(meeting);
        ++nodes_[node].num_to_meet;
      }
    }
  }

  void order(std::size_t before, std::size_t after) {
    nodes_[before].next.push_back(after);
    ++nodes_[after].num_before;
  }

  void start_what_is_due() {
    while (!starts_.empty() && starts_.top().first <= now_) {
      const std::size_t node = starts_.top().second;
      starts_.pop();
      if (nodes_[node].num_to_meet == 0) {
        running_.push_back(node);
        continue;
      }
      for (const std::size_t meeting : nodes_[node].meets) arrive(node, meetings_[meeting]);
    }
  }

  /// The last to arrive goes on at once; the others sleep.
  void arrive(std::size_t node, Meeting& meeting) {
    if (++meeting.num_arrived < static_cast<int>(meeting.members.size())) return;
    for (const std::size_t member : meeting.members) {
      if (--nodes_[member].num_to_meet > 0) continue;
      starts_.emplace(now_ + (member == node ? 0.0 : wake_seconds_), member);
    }
  }

  /// Share of an op that is done in a second while `threads` are busy.
  [[nodiscard]] double rate(const CoreOp& op, int threads) const {
    const double crowd =
        num_cores_ == 1 ? 1 : std::clamp((threads - 1.0) / (num_cores_ - 1.0), 0.0, 1.0);
    const double seconds = op.seconds.alone + (op.seconds.busy - op.seconds.alone) * crowd;
    const double share =
        op.threads > 0 && threads > num_cores_ ? static_cast<double>(num_cores_) / threads : 1.0;
    constexpr double kAtOnce = 1e15;
    return seconds > 0 ? share / seconds : kAtOnce;
  }

  /// To the next end or start. An op ends when the clock shows the time at which it would: what is
  /// left of it may be less than the clock can count.
  void advance() {
    int threads = 0;
    for (const std::size_t node : running_) threads += nodes_[node].op.threads;
    double until = starts_.empty() ? std::numeric_limits<double>::infinity() : starts_.top().first;
    std::vector<double> ends;
    for (const std::size_t node : running_) {
      ends.push_back(now_ + nodes_[node].left / rate(nodes_[node].op, threads));
      until = std::min(until, ends.back());
    }
    TRI_CHECK(until < std::numeric_limits<double>::infinity());
    const double elapsed = until - now_;
    now_ = until;
    std::vector<std::size_t> done;
    std::vector<std::size_t> still;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Node& each = nodes_[running_[i]];
      each.left -= elapsed * rate(each.op, threads);
      if (each.queue == 0) clock_.busy[each.rank] += elapsed;
      (ends[i] <= until || each.left <= 0 ? done : still).push_back(running_[i]);
    }
    running_ = std::move(still);
    for (const std::size_t node : done) complete(node);
  }

  void complete(std::size_t node) {
    ++num_done_;
    for (const std::size_t next : nodes_[node].next) {
      if (--nodes_[next].num_before > 0) continue;
      const bool was_asleep = nodes_[next].queue != nodes_[node].queue;
      starts_.emplace(now_ + (was_asleep ? wake_seconds_ : 0.0), next);
    }
  }

  using Start = std::pair<double, std::size_t>;
  int num_cores_;
  double wake_seconds_;
  std::vector<Node> nodes_;
  std::vector<Meeting> meetings_;
  std::priority_queue<Start, std::vector<Start>, std::greater<>> starts_;
  std::vector<std::size_t> running_;
  std::size_t num_done_ = 0;
  double now_ = 0;
  CoreClock clock_;
};

}  // namespace

CoreClock run_core_clock(const RendezvousSystem& system,
                         const std::vector<std::vector<CoreOp>>& ops, int num_cores,
                         double wake_seconds) {
  return Run(system, ops, num_cores, wake_seconds).run();
}

}  // namespace trireme
