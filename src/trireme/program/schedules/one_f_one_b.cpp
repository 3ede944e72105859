// 1F1B (PipeDream-flush, Narayanan et al. 2021, arXiv:2006.09503): after a warm-up of forwards, a
// forward and a backward in turn.
#include <algorithm>

#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

/// `warm_ups`: forwards ahead for each stage that follows.
std::vector<Order> one_in_one_out(const ScheduleShape& shape, int warm_ups) {
  const int m = shape.micro_batches;
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int ahead = std::min(warm_ups * (shape.ranks - 1 - rank), m);
    OrderWriter order;
    for (int i = 0; i < ahead; ++i) order.forward(rank, i);
    for (int i = 0; i < m; ++i) {
      if (ahead + i < m) order.forward(rank, ahead + i);
      order.backward(rank, i);
    }
    orders.push_back(order.take());
  }
  return orders;
}

}  // namespace

ScheduleKind one_f_one_b_schedule() {
  return {.name = "1f1b",
          .doc = "a forward and a backward in turn (arXiv:2006.09503)",
          .orders = [](const ScheduleShape& shape) { return one_in_one_out(shape, 1); }};
}

ScheduleKind eager_one_f_one_b_schedule() {
  return {.name = "1f1b-eager",
          .doc = "twice the forwards ahead, which hides the latency of links (arXiv:2211.05322)",
          .orders = [](const ScheduleShape& shape) { return one_in_one_out(shape, 2); }};
}

}  // namespace trireme
