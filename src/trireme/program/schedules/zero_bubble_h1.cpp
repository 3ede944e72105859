// ZB-H1 (Qi et al. 2024, arXiv:2401.10241): 1F1B whose weight gradients wait until they fill the
// bubble, in no more memory than 1F1B's first rank.
#include <algorithm>

#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

std::vector<Order> zero_bubble_h1_orders(const ScheduleShape& shape) {
  const int m = shape.micro_batches;
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int ahead = std::min(shape.ranks - 1 - rank, m);
    OrderWriter order;
    for (int i = 0; i < ahead; ++i) order.forward(rank, i);
    int weights = 0;
    for (int i = 0; i < m; ++i) {
      if (ahead + i < m) order.forward(rank, ahead + i);
      order.input(rank, i);
      if (i >= rank) order.weight(rank, weights++);  // `rank` micro-batches behind
    }
    while (weights < m) order.weight(rank, weights++);
    orders.push_back(order.take());
  }
  return orders;
}

}  // namespace

ScheduleKind zero_bubble_h1_schedule() {
  return {.name = "zb-h1",
          .doc = "1F1B with weight gradients in its bubble (arXiv:2401.10241)",
          .orders = zero_bubble_h1_orders};
}

}  // namespace trireme
