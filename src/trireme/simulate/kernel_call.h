// Which kernel an instruction runs, and with what sizes: what its time depends on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "trireme/cost/calibration.h"
#include "trireme/program/local_model.h"
#include "trireme/program/program.h"

namespace trireme {

/// A kernel with its sizes, in the order of kernel_table(kernel).sizes.
struct KernelCall {
  Kernel kernel{};
  std::array<double, kMaxKernelSizes> sizes = {};
  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 that the language itself compares with
  auto operator<=>(const KernelCall&) const = default;
  /// What seconds grow with: FLOPs of products and attention, elements of the rest.
  [[nodiscard]] double work() const;
};

/// What a communication moves.
struct TransferCall {
  Transfers transfers{};
  double ranks = 1;
  double bytes = 0;  ///< of the full message, as it lies in memory
  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 that the language itself compares with
  auto operator<=>(const TransferCall&) const = default;
};

/// Of a compute instruction of a training program; `model` is that of the program. InternalError
/// for a communication.
[[nodiscard]] KernelCall kernel_call(const Program& program, const LocalModel& model,
                                     const Instruction& instruction);

/// Of a communication.
[[nodiscard]] TransferCall transfer_call(const Program& program, const Instruction& instruction);

}  // namespace trireme
