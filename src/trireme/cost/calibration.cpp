#include "trireme/cost/calibration.h"

#include <algorithm>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

using Sizes = std::array<std::string_view, kMaxKernelSizes>;
constexpr Sizes kElements = {"elements"};
constexpr Sizes kProduct = {"tokens", "outputs", "inputs"};
constexpr Sizes kAttention = {"sequence_heads", "queries", "keys", "head_dim"};

constexpr KernelTable product(Kernel kernel, std::string_view key) {
  return {.kernel = kernel, .key = key, .sizes = kProduct, .num_sizes = 3};
}
constexpr KernelTable attention(Kernel kernel, std::string_view key) {
  return {.kernel = kernel, .key = key, .sizes = kAttention, .num_sizes = 4};
}
constexpr KernelTable elements(Kernel kernel, std::string_view key) {
  return {.kernel = kernel, .key = key, .sizes = kElements, .num_sizes = 1};
}

constexpr std::array<KernelTable, kNumKernels> kKernels = {
    product(Kernel::kProductForward, "kernels.product_forward"),
    product(Kernel::kProductInput, "kernels.product_input"),
    product(Kernel::kProductWeight, "kernels.product_weight"),
    product(Kernel::kProductWeightAdd, "kernels.product_weight_add"),
    product(Kernel::kHead, "kernels.head"),
    product(Kernel::kHeadLogits, "kernels.head_logits"),
    elements(Kernel::kHeadSums, "kernels.head_sums"),
    product(Kernel::kHeadGradient, "kernels.head_gradient"),
    attention(Kernel::kAttentionForward, "kernels.attention_forward"),
    attention(Kernel::kAttentionBackward, "kernels.attention_backward"),
    attention(Kernel::kRingAttentionForward, "kernels.ring_attention_forward"),
    attention(Kernel::kRingAttentionBackward, "kernels.ring_attention_backward"),
    elements(Kernel::kRmsNormForward, "kernels.rms_norm_forward"),
    elements(Kernel::kRmsNormAgain, "kernels.rms_norm_again"),
    elements(Kernel::kRmsNormBackward, "kernels.rms_norm_backward"),
    elements(Kernel::kLayerNormForward, "kernels.layer_norm_forward"),
    elements(Kernel::kLayerNormAgain, "kernels.layer_norm_again"),
    elements(Kernel::kLayerNormBackward, "kernels.layer_norm_backward"),
    elements(Kernel::kRotationForward, "kernels.rotation_forward"),
    elements(Kernel::kRotationBackward, "kernels.rotation_backward"),
    elements(Kernel::kHeadNormForward, "kernels.head_norm_forward"),
    elements(Kernel::kHeadNormBackward, "kernels.head_norm_backward"),
    elements(Kernel::kSplitForward, "kernels.split_forward"),
    elements(Kernel::kSplitBackward, "kernels.split_backward"),
    elements(Kernel::kSwigluForward, "kernels.swiglu_forward"),
    elements(Kernel::kSwigluBackward, "kernels.swiglu_backward"),
    elements(Kernel::kGeluForward, "kernels.gelu_forward"),
    elements(Kernel::kGeluBackward, "kernels.gelu_backward"),
    elements(Kernel::kEmbeddingForward, "kernels.embedding_forward"),
    elements(Kernel::kEmbeddingBackward, "kernels.embedding_backward"),
    elements(Kernel::kDropoutForward, "kernels.dropout_forward"),
    elements(Kernel::kDropoutBackward, "kernels.dropout_backward"),
    elements(Kernel::kStageOut, "kernels.stage_out"),
    elements(Kernel::kRowBias, "kernels.row_bias"),
    elements(Kernel::kPosition, "kernels.position"),
    elements(Kernel::kLoad, "kernels.load"),
    elements(Kernel::kScalar, "kernels.scalar"),
    elements(Kernel::kZero, "kernels.zero"),
    elements(Kernel::kCopy, "kernels.copy"),
    elements(Kernel::kRound, "kernels.round"),
    elements(Kernel::kAdd, "kernels.add"),
    elements(Kernel::kSquareSum, "kernels.square_sum"),
    elements(Kernel::kAdamw, "kernels.adamw"),
};

constexpr std::array<std::string_view, kNumTransfers> kTransferKeys = {
    "transfers.all_reduce",     "transfers.all_reduce_bf16",
    "transfers.reduce_scatter", "transfers.reduce_scatter_bf16",
    "transfers.all_gather",     "transfers.message",
    "transfers.exchange",
};

}  // namespace

const KernelTable& kernel_table(Kernel kernel) {
  const KernelTable& table = kKernels.at(static_cast<std::size_t>(kernel));
  TRI_CHECK(table.kernel == kernel);
  return table;
}

std::string_view transfers_key(Transfers transfers) {
  return kTransferKeys.at(static_cast<std::size_t>(transfers));
}

std::vector<TableRule> calibration_tables() {
  std::vector<TableRule> rules;
  for (const KernelTable& table : kKernels) {
    std::vector<std::string_view> columns = {"bits", "threads", "ranks"};
    columns.insert(columns.end(), table.sizes.begin(), table.sizes.begin() + table.num_sizes);
    columns.emplace_back("seconds");
    rules.push_back({.key = table.key, .columns = std::move(columns)});
  }
  for (const std::string_view key : kTransferKeys) {
    rules.push_back({.key = key, .columns = {"ranks", "bytes", "seconds"}});
  }
  return rules;
}

}  // namespace trireme
