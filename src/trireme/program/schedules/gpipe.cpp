// GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards.
#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

std::vector<Order> all_then_all(const ScheduleShape& shape, bool newest_first) {
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    OrderWriter order;
    for (int m = 0; m < shape.micro_batches; ++m) order.forward(rank, m);
    for (int m = 0; m < shape.micro_batches; ++m)
      order.backward(rank, newest_first ? shape.micro_batches - 1 - m : m);
    orders.push_back(order.take());
  }
  return orders;
}

}  // namespace

ScheduleKind gpipe_schedule() {
  return {.name = "gpipe",
          .doc = "all forwards, then all backwards in the same order (arXiv:1811.06965)",
          .orders = [](const ScheduleShape& shape) { return all_then_all(shape, false); }};
}

ScheduleKind gpipe_lifo_schedule() {
  return {.name = "gpipe-lifo",
          .doc = "all forwards, then all backwards from the newest on",
          .orders = [](const ScheduleShape& shape) { return all_then_all(shape, true); }};
}

}  // namespace trireme
