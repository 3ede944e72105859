#include "trireme/program/rendezvous.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

namespace trireme {
namespace {

/// Nodes: start and completion of each op, then the meetings.
class RendezvousGraph {
 public:
  explicit RendezvousGraph(const RendezvousSystem& system) : system_(system) {
    for (const auto& ops : system.ranks) {
      first_op_.push_back(num_ops_);
      num_ops_ += ops.size();
      for (const RendezvousOp& op : ops) {
        for (const int meeting : op.meets)
          num_meetings_ = std::max(num_meetings_, static_cast<std::size_t>(meeting) + 1);
        for (const int meeting : op.needs)
          num_meetings_ = std::max(num_meetings_, static_cast<std::size_t>(meeting) + 1);
      }
    }
    next_.resize(2 * num_ops_ + num_meetings_);
    waits_for_.assign(next_.size(), 0);
    seconds_.assign(next_.size(), 0.0);
    ready_.assign(next_.size(), 0.0);
    for (std::size_t rank = 0; rank < system.ranks.size(); ++rank) add_rank(rank);
    refuse_lonely_meetings();
  }

  RendezvousResult run() {
    std::vector<std::size_t> open;
    for (std::size_t node = 0; node < next_.size(); ++node) {
      if (waits_for_[node] == 0) open.push_back(node);
    }
    RendezvousResult result;
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      const double end = ready_[node] + seconds_[node];
      result.makespan = std::max(result.makespan, end);
      for (const std::size_t after : next_[node]) {
        ready_[after] = std::max(ready_[after], end);
        if (--waits_for_[after] == 0) open.push_back(after);
      }
    }
    for (std::size_t rank = 0; rank < system_.ranks.size(); ++rank) {
      if (const auto stuck = stuck_op(rank)) result.stuck.push_back(*stuck);
    }
    return result;
  }

 private:
  [[nodiscard]] std::optional<StuckOp> stuck_op(std::size_t rank) const {
    std::optional<StuckOp> stuck;
    for (std::size_t op = 0; op < system_.ranks[rank].size(); ++op) {
      if (!stuck && waits_for_[completion(rank, op)] != 0)
        stuck = StuckOp{.rank = static_cast<int>(rank), .op = static_cast<int>(op)};
      if (waits_for_[start(rank, op)] == 0) continue;
      stuck->never_begun = static_cast<int>(op);
      break;
    }
    return stuck;
  }

  [[nodiscard]] std::size_t start(std::size_t rank, std::size_t op) const {
    return 2 * (first_op_[rank] + op);
  }
  [[nodiscard]] std::size_t completion(std::size_t rank, std::size_t op) const {
    return start(rank, op) + 1;
  }
  [[nodiscard]] std::size_t meeting(int number) const {
    return 2 * num_ops_ + static_cast<std::size_t>(number);
  }

  void edge(std::size_t before, std::size_t after) {
    next_[before].push_back(after);
    ++waits_for_[after];
  }

  void add_rank(std::size_t rank) {
    std::map<int, std::size_t> last;  // completion of the latest op, by queue
    const auto& ops = system_.ranks[rank];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const RendezvousOp& op = ops[i];
      seconds_[completion(rank, i)] = op.seconds;
      edge(start(rank, i), completion(rank, i));
      for (const int before : op.after)
        edge(completion(rank, static_cast<std::size_t>(before)), start(rank, i));
      for (const int number : op.needs) edge(meeting(number), start(rank, i));
      for (const int number : op.meets) {
        seconds_[meeting(number)] = system_.meeting_seconds;
        edge(start(rank, i), meeting(number));
        edge(meeting(number), completion(rank, i));
      }
      if (const auto before = last.find(op.queue); before != last.end())
        edge(before->second, start(rank, i));
      last[op.queue] = completion(rank, i);
    }
  }

  void refuse_lonely_meetings() {
    for (std::size_t node = 2 * num_ops_; node < next_.size(); ++node) {
      if (waits_for_[node] < 2) waits_for_[node] = 1 << 30;
    }
  }

  const RendezvousSystem& system_;
  std::vector<std::size_t> first_op_;  ///< by rank
  std::size_t num_ops_ = 0, num_meetings_ = 0;
  std::vector<std::vector<std::size_t>> next_;
  std::vector<int> waits_for_;
  std::vector<double> seconds_, ready_;
};

}  // namespace

RendezvousResult run_rendezvous(const RendezvousSystem& system) {
  return RendezvousGraph(system).run();
}

std::string stuck_text(const RendezvousSystem& system, const RendezvousResult& result) {
  std::string text;
  for (const StuckOp& at : result.stuck) {
    text += fmt::format(
        "{}rank {} at {}", text.empty() ? "" : ", ", at.rank,
        system.ranks[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.op)].name);
  }
  return text;
}

}  // namespace trireme
