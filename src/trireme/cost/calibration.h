// What `trireme calibrate` measures: which kernels, on which sizes their time depends, in what
// tables.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/cost/quantity_file.h"

namespace trireme {

/// A compute instruction as its time sees it. Instructions of one kernel and equal sizes take the
/// same time.
enum class Kernel : std::uint8_t {
  kProductForward,    ///< y = x w^T of a linear layer
  kProductInput,      ///< dx = dy w
  kProductWeight,     ///< dw = dy^T x
  kProductWeightAdd,  ///< dw += dy^T x
  kHead,              ///< logits, loss and both gradients
  kHeadLogits,        ///< of one chunk of tokens and a rank's share of the vocabulary
  kHeadSums,
  kHeadGradient,
  kAttentionForward,
  kAttentionBackward,
  kRingAttentionForward,  ///< of the keys of one hop, into fp32 sums
  kRingAttentionBackward,
  kRmsNormForward,
  kRmsNormAgain,  ///< from kept statistics
  kRmsNormBackward,
  kLayerNormForward,
  kLayerNormAgain,
  kLayerNormBackward,
  kRotationForward,  ///< head split and rotation
  kRotationBackward,
  kHeadNormForward,  ///< the same with norms of queries and keys
  kHeadNormBackward,
  kSplitForward,  ///< head split alone
  kSplitBackward,
  kSwigluForward,
  kSwigluBackward,
  kGeluForward,
  kGeluBackward,
  kEmbeddingForward,
  kEmbeddingBackward,
  kDropoutForward,
  kDropoutBackward,
  kStageOut,
  kRowBias,
  kPosition,
  kLoad,
  kScalar,  ///< COUNT, INVERSE, CLIP
  kZero,
  kCopy,
  kRound,  ///< fp32 to bf16
  kAdd,
  kSquareSum,
  kAdamw,
};
inline constexpr int kNumKernels = 43;
inline constexpr int kMaxKernelSizes = 4;

/// The table of a kernel. Its columns are bits (of the type that the step computes in), threads (of
/// the rank), ranks (that compute at the same time), the sizes, and seconds.
struct KernelTable {
  Kernel kernel{};
  std::string_view key;  ///< "kernels.product_forward"
  std::array<std::string_view, kMaxKernelSizes> sizes = {};
  int num_sizes = 1;
};
[[nodiscard]] const KernelTable& kernel_table(Kernel kernel);

/// Communication between ranks that are threads. A table has the columns ranks, bytes (of the full
/// message), seconds, from when all members have begun.
enum class Transfers : std::uint8_t {
  kAllReduce,
  kAllReduceBf16,  ///< fp32 that travels in bf16; the same for reduce-scatter
  kReduceScatter,
  kReduceScatterBf16,
  kAllGather,
  kMessage,
  kExchange,
};
inline constexpr int kNumTransfers = 7;
[[nodiscard]] std::string_view transfers_key(Transfers transfers);

/// Optional numbers of a calibrated machine.
inline constexpr std::string_view kCoresKey = "machine.cores";
inline constexpr std::string_view kInstructionKey = "machine.instruction";
inline constexpr std::string_view kStepKey = "machine.step";
inline constexpr std::string_view kWakeKey = "machine.wake";

/// The rules of all tables above, for cluster_rules().
[[nodiscard]] std::vector<TableRule> calibration_tables();

}  // namespace trireme
