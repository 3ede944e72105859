// Naive model parallelism: a micro-batch passes through all stages and back before the next starts.
#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

std::vector<Order> naive_orders(const ScheduleShape& shape) {
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    OrderWriter order;
    for (int m = 0; m < shape.micro_batches; ++m) {
      order.forward(rank, m);
      order.backward(rank, m);
    }
    orders.push_back(order.take());
  }
  return orders;
}

}  // namespace

ScheduleKind naive_schedule() {
  return {.name = "naive",
          .doc = "one micro-batch at a time; GPipe with one micro-batch",
          .orders = naive_orders};
}

}  // namespace trireme
