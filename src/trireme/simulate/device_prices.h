// Seconds of instructions on a published cluster, where each rank has a device of its own.
#pragma once

#include <utility>

#include "trireme/cost/cluster.h"
#include "trireme/simulate/step_price.h"

namespace trireme {

/// The closed forms of cost/ for single instructions: products and attention by their sizes,
/// everything else by the bytes of its operands, collectives and messages by where the group's
/// ranks sit. Each with the floor of a kernel; side by side computation and communication of a rank
/// slow each other as the cluster says.
class DevicePrices {
 public:
  explicit DevicePrices(Cluster cluster) : cluster_(std::move(cluster)) {}

  /// Of a compute instruction of a training program; `model` is that of the program.
  [[nodiscard]] double kernel_seconds(const Program& program, const LocalModel& model,
                                      const Instruction& instruction) const;
  /// Of a communication, from when all members have begun; 0 if the rank is alone.
  [[nodiscard]] double transfer_seconds(const Program& program,
                                        const Instruction& instruction) const;
  /// `*this` outlives the result.
  [[nodiscard]] StepPrices step_prices() const;

 private:
  Cluster cluster_;
};

}  // namespace trireme
