// ZB-V (Qi et al. 2024, arXiv:2405.15362): two chunks a rank in a V, stages r and 2p-1-r, so that
// the last stage lies beside the first and memory is equal on all ranks.
#include <algorithm>
#include <array>

#include "trireme/program/schedules/order_writer.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

/// One rank's order; chunk 0 is the way down, chunk 1 the way back.
class RankOfV {
 public:
  RankOfV(const ScheduleShape& shape, int rank)
      : ranks_(shape.ranks),
        rank_(rank),
        stages_{rank, 2 * shape.ranks - 1 - rank},
        num_micro_batches_(shape.micro_batches),
        // Fewer micro-batches than fill the pipeline run as so many, the rest left out.
        num_scheduled_(std::max(shape.micro_batches, 2 * shape.ranks - 1)) {}

  Order run() {
    repeat(2 * (ranks_ - rank_) - 1, [&] { forward(0); });
    repeat(rank_, [&] { forward(1), forward(0); });
    repeat(ranks_ - rank_, [&] { forward(1), input(1), weight(1); });
    while (forwards_[1] < forwards_[0] || forwards_[0] < num_scheduled_) {
      if (forwards_[0] < num_scheduled_) forward(0);
      input(0), weight(0), forward(1), input(1), weight(1);
    }
    repeat(rank_, [&] { input(0), input(1); });
    repeat(ranks_ - rank_, [&] { input(0), weight(0); });
    while (weights_[1] < inputs_[1]) weight(1);
    while (weights_[0] < inputs_[0]) weight(0);
    return order_.take();
  }

 private:
  using ByChunk = std::array<int, 2>;

  template <typename Body>
  static void repeat(int times, Body body) {
    for (int i = 0; i < times; ++i) body();
  }
  void forward(std::size_t chunk) {
    const int m = forwards_.at(chunk)++;
    if (m < num_micro_batches_) order_.forward(stages_.at(chunk), m);
  }
  void input(std::size_t chunk) {
    const int m = inputs_.at(chunk)++;
    if (m < num_micro_batches_) order_.input(stages_.at(chunk), m);
  }
  void weight(std::size_t chunk) {
    const int m = weights_.at(chunk)++;
    if (m < num_micro_batches_) order_.weight(stages_.at(chunk), m);
  }

  int ranks_;
  int rank_;
  ByChunk stages_;
  int num_micro_batches_;
  int num_scheduled_;
  ByChunk forwards_{}, inputs_{}, weights_{};
  OrderWriter order_;
};

std::vector<Order> zero_bubble_v_orders(const ScheduleShape& shape) {
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) orders.push_back(RankOfV(shape, rank).run());
  return orders;
}

}  // namespace

ScheduleKind zero_bubble_v_schedule() {
  return {.name = "zb-v",
          .doc = "two chunks a rank in a V, weight gradients in the bubble (arXiv:2405.15362)",
          .chunks = 2,
          .orders = zero_bubble_v_orders};
}

}  // namespace trireme
