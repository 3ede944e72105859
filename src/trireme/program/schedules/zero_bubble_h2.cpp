// ZB-H2 (Qi et al. 2024, arXiv:2401.10241): more forwards ahead than ZB-H1, no idle time between
// the first and the last op of a rank, about twice the memory.
#include <fmt/format.h>

#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

std::vector<Order> zero_bubble_h2_orders(const ScheduleShape& shape) {
  const int m = shape.micro_batches;
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int ahead = 2 * (shape.ranks - rank) - 1;
    OrderWriter order;
    for (int i = 0; i < ahead; ++i) order.forward(rank, i);
    int weights = 0;
    for (int i = 0; i < m; ++i) {
      order.input(rank, i);
      if (i >= 2 * rank) order.weight(rank, weights++);
      if (ahead + i < m) order.forward(rank, ahead + i);
    }
    while (weights < m) order.weight(rank, weights++);
    orders.push_back(order.take());
  }
  return orders;
}

std::string zero_bubble_h2_refusal(const ScheduleShape& shape) {
  const int least = 2 * shape.ranks - 1;
  if (shape.micro_batches >= least) return "";
  return fmt::format("needs at least 2 pp - 1; use {} or more micro-batches", least);
}

}  // namespace

ScheduleKind zero_bubble_h2_schedule() {
  return {.name = "zb-h2",
          .doc = "no idle time within a rank, twice the memory (arXiv:2401.10241)",
          .refusal = zero_bubble_h2_refusal,
          .orders = zero_bubble_h2_orders};
}

}  // namespace trireme
