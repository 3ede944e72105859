// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2): rank r holds the stages
// r, r + p, r + 2p, ...; micro-batches pass through the chunks in groups.
#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

struct ChunkVisit {
  int chunk = 0;
  int micro_batch = 0;
};

/// A last, smaller group must still fill the pipeline.
bool is_valid_group(const ScheduleShape& shape, int group) {
  if (group < 1) return false;
  const int rest = shape.micro_batches % group;
  return group >= shape.ranks && group <= shape.micro_batches && (rest == 0 || rest >= shape.ranks);
}

/// 0 if there is none: fewer micro-batches than ranks.
int group_of(const ScheduleShape& shape) {
  if (shape.group > 0) return is_valid_group(shape, shape.group) ? shape.group : 0;
  for (int group = shape.ranks; group <= shape.micro_batches; ++group) {
    if (is_valid_group(shape, group)) return group;
  }
  return 0;
}

/// Chunk after chunk within a group, group after group.
std::vector<ChunkVisit> forward_visits(const ScheduleShape& shape, int group) {
  std::vector<ChunkVisit> visits;
  for (int first = 0; first < shape.micro_batches; first += group) {
    const int end = std::min(first + group, shape.micro_batches);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int m = first; m < end; ++m) visits.push_back({.chunk = chunk, .micro_batch = m});
    }
  }
  return visits;
}

std::vector<Order> interleaved_orders(const ScheduleShape& shape) {
  const int group = group_of(shape);
  const std::vector<ChunkVisit> visits = forward_visits(shape, group);
  const auto num_visits = static_cast<int>(visits.size());
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    OrderWriter order;
    const auto forward = [&](int k) {
      const ChunkVisit& visit = visits[static_cast<std::size_t>(k)];
      order.forward(visit.chunk * shape.ranks + rank, visit.micro_batch);
    };
    const int ahead =
        std::min(2 * (shape.ranks - 1 - rank) + (shape.chunks - 1) * group, num_visits);
    for (int k = 0; k < ahead; ++k) forward(k);
    for (int k = 0; k < num_visits; ++k) {
      if (ahead + k < num_visits) forward(ahead + k);
      const ChunkVisit& visit = visits[static_cast<std::size_t>(k)];
      const int chunk = shape.chunks - 1 - visit.chunk;
      order.backward(chunk * shape.ranks + rank, visit.micro_batch);
    }
    orders.push_back(order.take());
  }
  return orders;
}

std::string interleaved_refusal(const ScheduleShape& shape) {
  if (group_of(shape) > 0) return "";
  if (shape.group == 0 || shape.micro_batches < shape.ranks) {
    return fmt::format("needs at least pp micro-batches; use {} or more", shape.ranks);
  }
  return fmt::format(
      "groups of {} must hold pp to all micro-batches, and a last, smaller group at least pp; use "
      "groups of {}",
      shape.group, shape.micro_batches);
}

}  // namespace

ScheduleKind interleaved_schedule() {
  return {.name = "interleaved",
          .doc = "1F1B over several chunks a rank, a bubble 1/chunks as long (arXiv:2104.04473)",
          .chunks = 0,
          .refusal = interleaved_refusal,
          .orders = interleaved_orders};
}

}  // namespace trireme
