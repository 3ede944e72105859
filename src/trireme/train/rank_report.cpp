#include "trireme/train/rank_report.h"

#include <set>
#include <span>
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/program/groups.h"

namespace trireme {
namespace {

/// Tags of the three messages of a rank.
enum Tag : int { kCounts, kNumbers, kTimes };

struct Counts {
  std::int64_t num_numbers = 0;
  std::int64_t num_times = 0;
};

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

void send_report(const RankReport& report, Communicator& all) {
  std::vector<std::int64_t> numbers = {report.arena_bytes};
  for (const auto& [group, sent] : report.bytes_sent) numbers.push_back(sent);
  std::vector<InstructionTime> times;
  for (const StreamRecord& record : report.traces) {
    numbers.push_back(static_cast<std::int64_t>(record.stream));
    numbers.push_back(std::ssize(record.times));
    times.insert(times.end(), record.times.begin(), record.times.end());
  }
  Counts counts{.num_numbers = std::ssize(numbers), .num_times = std::ssize(times)};
  all.send(std::as_bytes(std::span(&counts, 1)), 0, kCounts);
  all.send(bytes_of(numbers), 0, kNumbers);
  all.send(bytes_of(times), 0, kTimes);
}

RankReport receive_report(const RunPlan& plan, int rank, Communicator& all) {
  Counts counts;
  all.recv(std::as_writable_bytes(std::span(&counts, 1)), rank, kCounts);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(counts.num_numbers));
  all.recv(bytes_of(numbers), rank, kNumbers);
  std::vector<InstructionTime> times(static_cast<std::size_t>(counts.num_times));
  all.recv(bytes_of(times), rank, kTimes);
  auto number = numbers.begin();
  RankReport report{.arena_bytes = *number++};
  for (const std::string& group : groups_of(plan.ranks.at(static_cast<std::size_t>(rank)).programs))
    report.bytes_sent[group] = *number++;
  auto time = times.begin();
  while (number != numbers.end()) {
    const auto stream = static_cast<Stream>(*number++);
    const auto end = time + *number++;
    report.traces.push_back({.program = &plan.program(rank, RunPlan::kTrain),
                             .rank = rank,
                             .stream = stream,
                             .times = {time, end}});
    time = end;
  }
  return report;
}

}  // namespace

std::vector<RankReport> gather_reports(const RunPlan& plan, RankReport own, Communicator* all) {
  if (all != nullptr && all->rank() != 0) {
    send_report(own, *all);
    return {};
  }
  std::vector<RankReport> reports;
  reports.push_back(std::move(own));
  for (int rank = 1; all != nullptr && rank < all->size(); ++rank) {
    reports.push_back(receive_report(plan, rank, *all));
  }
  return reports;
}

}  // namespace trireme
