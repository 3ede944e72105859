#include "trireme/simulate/device_prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "trireme/cost/collectives.h"
#include "trireme/cost/kernels.h"
#include "trireme/program/groups.h"
#include "trireme/simulate/kernel_call.h"

namespace trireme {
namespace {

constexpr double kWideBytes = sizeof(float);

/// Bytes of a logit that go through memory beside the products: their fp32 values are read for
/// maximum and sum and again for the gradient, which is written. As logit_bytes of
/// profiles/trireme.toml.
constexpr double kLogitReadBytes = 4;
constexpr double kLogitGradientBytes = 8;

double operand_bytes(const Instruction& instruction) {
  double bytes = 0;
  for (const Use& use : instruction.uses) {
    if (use.role == Role::kWorkspace) continue;
    const bool is_twice = use.access == Access::kReadWrite || use.access == Access::kAccumulate;
    bytes += static_cast<double>(use.range.bytes) * (is_twice ? 2 : 1);
  }
  return bytes;
}

/// Of a linear layer: an added weight gradient is read once more.
double product_seconds(const Device& device, ComputePrecision precision, const KernelCall& call) {
  const auto [tokens, outputs, inputs, unused] = call.sizes;
  switch (call.kernel) {
    case Kernel::kProductForward:
      return product_seconds(device, precision, tokens, outputs, inputs);
    case Kernel::kProductInput:
      return product_seconds(device, precision, tokens, inputs, outputs);
    default:
      return product_seconds(device, precision, outputs, inputs, tokens) +
             (call.kernel == Kernel::kProductWeightAdd
                  ? bytes_seconds(device, kWideBytes * outputs * inputs)
                  : 0);
  }
}

/// Of a head, whole or cut over the vocabulary.
double head_seconds(const Device& device, ComputePrecision precision, const KernelCall& call) {
  const auto [tokens, vocab, hidden, unused] = call.sizes;
  const ProductSeconds products = weight_product_seconds(device, precision, tokens, vocab, hidden);
  const double logits = tokens * vocab;
  const double forward = products.forward + bytes_seconds(device, kLogitReadBytes * logits);
  const double backward = products.backward + bytes_seconds(device, kLogitGradientBytes * logits);
  if (call.kernel == Kernel::kHeadLogits) return forward;
  return call.kernel == Kernel::kHeadGradient ? backward : forward + backward;
}

/// Queries see half of the keys, whether those are the rank's own, one hop's or all ranks': the
/// ranks of a ring hold an early and a late piece of each sequence.
double attention_seconds(const Device& device, ComputePrecision precision, const KernelCall& call,
                         bool is_backward) {
  const auto [sequences, queries, keys, head_dim] = call.sizes;
  const ProductSeconds seconds = fused_attention_seconds(
      device, precision, 0,
      {.sequences = sequences, .seq = std::sqrt(queries * keys), .heads = 1, .head_dim = head_dim});
  return is_backward ? seconds.backward : seconds.forward;
}

/// The rows that are looked up, not the table.
double embedding_bytes(const KernelCall& call, bool is_backward, double element_bytes) {
  return call.sizes[0] * 2 * (is_backward ? kWideBytes : element_bytes);
}

/// Where these ranks sit; the fullest node says how many share one.
GroupPlace place_of(const std::vector<int>& ranks, int node_devices) {
  std::map<int, int> ranks_of_node;
  for (const int rank : ranks) ++ranks_of_node[rank / node_devices];
  GroupPlace place{.ranks = static_cast<int>(ranks.size())};
  for (const auto& [node, count] : ranks_of_node)
    place.ranks_per_node = std::max(place.ranks_per_node, count);
  return place;
}

}  // namespace

double DevicePrices::kernel_seconds(const Program& program, const LocalModel& model,
                                    const Instruction& instruction) const {
  const bool is_bf16 = program.request.compute == DType::kBf16;
  const ComputePrecision precision = is_bf16 ? ComputePrecision::kBf16 : ComputePrecision::kFp32;
  const Device& device = cluster_.device;
  const KernelCall call = kernel_call(program, model, instruction);
  switch (call.kernel) {
    case Kernel::kProductForward:
    case Kernel::kProductInput:
    case Kernel::kProductWeight:
    case Kernel::kProductWeightAdd:
      return product_seconds(device, precision, call);
    case Kernel::kHead:
    case Kernel::kHeadLogits:
    case Kernel::kHeadGradient:
      return head_seconds(device, precision, call);
    case Kernel::kAttentionForward:
    case Kernel::kRingAttentionForward:
      return attention_seconds(device, precision, call, false);
    case Kernel::kAttentionBackward:
    case Kernel::kRingAttentionBackward:
      return attention_seconds(device, precision, call, true);
    case Kernel::kEmbeddingForward:
    case Kernel::kEmbeddingBackward:
      return bytes_seconds(device, embedding_bytes(call, is_backward(instruction.op),
                                                   is_bf16 ? 2 : kWideBytes)) +
             device.kernel_seconds;
    default:
      return bytes_seconds(device, operand_bytes(instruction)) + device.kernel_seconds;
  }
}

double DevicePrices::transfer_seconds(const Program& program,
                                      const Instruction& instruction) const {
  const Comm& comm = *instruction.comm;
  const std::vector<int> ranks = group_ranks(program.request, comm.group);
  if (ranks.size() < 2) return 0;
  const double bytes = static_cast<double>(comm.elems * dtype_bytes(comm.dtype));
  if (comm.peer >= 0) {
    const int peer = ranks.at(static_cast<std::size_t>(comm.peer));
    const bool leaves_node =
        peer / cluster_.node_devices != program.request.rank / cluster_.node_devices;
    return message_seconds(cluster_, leaves_node, bytes);
  }
  const GroupPlace place = place_of(ranks, cluster_.node_devices);
  const Collective collective = instruction.op == Op::kAllReduce   ? Collective::kAllReduce
                                : instruction.op == Op::kAllGather ? Collective::kAllGather
                                                                   : Collective::kReduceScatter;
  return collective_seconds(cluster_, collective, place, bytes);
}

StepPrices DevicePrices::step_prices() const {
  return {.price = [this](const Program& program, const LocalModel& model,
                          const Instruction& instruction) -> CoreOp {
    const bool computes = !instruction.comm;
    const double alone =
        computes ? kernel_seconds(program, model, instruction) * (1 + cluster_.straggler)
                 : transfer_seconds(program, instruction);
    const double slowdown =
        computes ? cluster_.overlap_compute_slowdown : cluster_.overlap_communication_slowdown;
    return {.seconds = {.alone = alone, .busy = alone * (1 + slowdown)}};
  }};
}

}  // namespace trireme
