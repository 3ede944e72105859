#include "trireme/simulate/device_prices.h"

#include <gtest/gtest.h>

#include "trireme/cost/collectives.h"
#include "trireme/cost/kernels.h"
#include "trireme/program/local_model.h"
#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

constexpr Batch kBatch{.seq = 8, .micro_batch = 1, .global_batch = 4};

/// The first instruction of the program that `is_wanted` accepts.
template <typename Wanted>
const Instruction& find_instruction(const Program& program, Wanted is_wanted) {
  for (const Template& item : program.templates) {
    for (const Instruction& instruction : item.instructions) {
      if (is_wanted(instruction)) return instruction;
    }
  }
  throw std::runtime_error("no such instruction");
}

const Instruction& find_part(const Program& program, Op op, Part part) {
  return find_instruction(program, [&](const Instruction& instruction) {
    return instruction.op == op && instruction.part == part;
  });
}

double kernel_seconds(const Program& program, const Instruction& instruction,
                      const Cluster& cluster) {
  return DevicePrices(cluster).kernel_seconds(program, LocalModel(program), instruction);
}

TEST(DevicePrices, AProductTakesItsClosedForm) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Program program = build_train(small_request({}, kBatch));
  const ModelSpec& spec = program.request.spec;
  EXPECT_DOUBLE_EQ(
      kernel_seconds(program, find_part(program, Op::kForward, Part::kMlpDown), cluster),
      product_seconds(cluster.device, ComputePrecision::kFp32, 8, static_cast<double>(spec.hidden),
                      static_cast<double>(spec.ffn)));
}

TEST(DevicePrices, AnElementWiseKernelTakesTheBytesOfItsOperands) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Program program = build_train(small_request({}, kBatch));
  const ModelSpec& spec = program.request.spec;
  const auto gate_and_up_and_result = static_cast<double>(8 * 3 * spec.ffn) * 4;
  EXPECT_DOUBLE_EQ(
      kernel_seconds(program, find_part(program, Op::kForward, Part::kAct), cluster),
      bytes_seconds(cluster.device, gate_and_up_and_result) + cluster.device.kernel_seconds);
}

TEST(DevicePrices, ACollectiveTakesItsClosedForm) {
  const Cluster cluster = read_cluster("h100-dgx");
  const Program program = build_train(small_request({.dp = 4, .dp_sync = DpSync::kNaive}, kBatch));
  const Instruction& sum = find_instruction(program, [](const Instruction& instruction) {
    return instruction.comm && instruction.comm->group == "dp" && instruction.comm->elems > 1;
  });
  EXPECT_DOUBLE_EQ(DevicePrices(cluster).transfer_seconds(program, sum),
                   collective_seconds(cluster, Collective::kAllReduce, group_place(4, 1, 8),
                                      static_cast<double>(sum.comm->elems) * 4));
}

TEST(DevicePrices, FirstAndLastStageOfOneNodeShareItsLinks) {
  const Cluster cluster = read_cluster("h100-dgx");
  ModelSpec spec = small_llama();
  spec.layers = 4;
  spec.tied = true;
  const Program program = build_train(small_request({.pp = 4, .dp = 2}, kBatch, spec));
  const Instruction& sum = find_instruction(program, [](const Instruction& instruction) {
    return instruction.comm && instruction.comm->group == "tied";
  });
  EXPECT_DOUBLE_EQ(DevicePrices(cluster).transfer_seconds(program, sum),
                   collective_seconds(cluster, Collective::kAllReduce, group_place(2, 1, 8),
                                      static_cast<double>(sum.comm->elems) * 4));
}

TEST(DevicePrices, AMessageToAnotherNodeTakesLonger) {
  Cluster cluster = read_cluster("h100-dgx");
  const Program program = build_train(small_request({.pp = 2}, kBatch));
  const Instruction& send = find_instruction(
      program, [](const Instruction& instruction) { return instruction.op == Op::kSend; });
  const double inside = DevicePrices(cluster).transfer_seconds(program, send);
  cluster.node_devices = 1;
  EXPECT_GT(DevicePrices(cluster).transfer_seconds(program, send), inside);
}

}  // namespace
}  // namespace trireme
