// Breadth-first pipeline parallelism (Lamy-Poirier 2023, arXiv:2211.05953): each chunk takes all
// micro-batches before the next, so its parameters are gathered once.
#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

std::vector<Order> breadth_first_orders(const ScheduleShape& shape) {
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    OrderWriter order;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int m = 0; m < shape.micro_batches; ++m) order.forward(chunk * shape.ranks + rank, m);
    }
    for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
      for (int m = shape.micro_batches - 1; m >= 0; --m)
        order.backward(chunk * shape.ranks + rank, m);
    }
    orders.push_back(order.take());
  }
  return orders;
}

}  // namespace

ScheduleKind breadth_first_schedule() {
  return {.name = "breadth-first",
          .doc = "chunk after chunk, each with all micro-batches (arXiv:2211.05953)",
          .chunks = 0,
          .orders = breadth_first_orders};
}

}  // namespace trireme
