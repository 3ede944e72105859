#include "trireme/simulate/kernel_call.h"

#include <gtest/gtest.h>

#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

/// Of the first instruction that `is_meant` of rank 0's training step.
template <typename IsMeant>
KernelCall first_call(const BuildRequest& request, IsMeant is_meant) {
  const Program program = build_train(request);
  const LocalModel model(program);
  for (const Template& item : program.templates) {
    for (const Instruction& instruction : item.instructions) {
      if (is_meant(instruction)) return kernel_call(program, model, instruction);
    }
  }
  ADD_FAILURE() << "no such instruction";
  return {};
}

BuildRequest request(Layout layout = {}) {
  return small_request(std::move(layout), {.seq = 8, .micro_batch = 2, .global_batch = 4});
}

TEST(KernelCall, AProductHasTokensOutputsAndInputs) {
  const KernelCall call = first_call(
      request(), [](const Instruction& i) { return i.part == Part::kQkv && is_forward(i.op); });
  EXPECT_EQ(call, (KernelCall{.kernel = Kernel::kProductForward, .sizes = {16, 20, 12}}));
  EXPECT_EQ(call.work(), 16 * 20 * 12);
}

TEST(KernelCall, TheSecondMicroBatchAddsToTheWeightGradient) {
  const KernelCall call = first_call(request(), [](const Instruction& i) {
    return i.part == Part::kProj && i.op == Op::kBackwardWeight &&
           i.find(Role::kDWeight)->access == Access::kAccumulate;
  });
  EXPECT_EQ(call, (KernelCall{.kernel = Kernel::kProductWeightAdd, .sizes = {16, 12, 12}}));
}

TEST(KernelCall, AttentionOfAContextShardSeesItsOwnKeysAHop) {
  const KernelCall call = first_call(request({.cp = 2}), [](const Instruction& i) {
    return i.part == Part::kAttn && i.op == Op::kBackward;
  });
  EXPECT_EQ(call, (KernelCall{.kernel = Kernel::kRingAttentionBackward, .sizes = {6, 4, 4, 4}}));
}

TEST(KernelCall, GatheredKeysAreThoseOfAllRanks) {
  const KernelCall call = first_call(
      request({.cp = 2, .cp_comm = CpComm::kAllGather}),
      [](const Instruction& i) { return i.part == Part::kAttn && i.op == Op::kForward; });
  EXPECT_EQ(call, (KernelCall{.kernel = Kernel::kAttentionForward, .sizes = {6, 4, 8, 4}}));
}

double optimizer_elems(const BuildRequest& of) {
  const Program program = build_train(of);
  const LocalModel model(program);
  double elems = 0;
  for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
    if (instruction.op == Op::kOptStep) elems += kernel_call(program, model, instruction).work();
  });
  return elems;
}

TEST(KernelCall, TheOptimizerWorksOnItsShard) {
  EXPECT_NEAR(optimizer_elems(request({.dp = 2, .zero = 1})), optimizer_elems(request()) / 2, 64);
}

TEST(TransferCall, AMessageHasTwoEnds) {
  const Program program = build_train(request({.pp = 2}));
  for (const Template& item : program.templates) {
    for (const Instruction& instruction : item.instructions) {
      if (instruction.op != Op::kSend) continue;
      const TransferCall call = transfer_call(program, instruction);
      EXPECT_EQ(call, (TransferCall{.transfers = Transfers::kMessage,
                                    .ranks = 2,
                                    .bytes = 2 * 8 * 12 * sizeof(float)}));
      return;
    }
  }
  FAIL() << "a pipeline without messages";
}

}  // namespace
}  // namespace trireme
