#include "trireme/calibrate/probe.h"

#include <set>

#include <gtest/gtest.h>

#include "trireme/layout/layout.h"
#include "trireme/simulate/kernel_call.h"

namespace trireme {
namespace {

using Measured = std::set<std::pair<int, Kernel>>;  // bits, kernel

Measured measured(const std::vector<Probe>& probes) {
  Measured result;
  for (const Probe& probe : probes) {
    for (const Program& program : probe_programs(probe)) {
      const LocalModel model(program);
      for (const Template& item : program.templates) {
        for (const Instruction& instruction : item.instructions) {
          if (instruction.comm) continue;
          result.emplace(program.request.compute == DType::kBf16 ? 16 : 32,
                         kernel_call(program, model, instruction).kernel);
        }
      }
    }
  }
  return result;
}

TEST(StandardProbes, MeasureEveryKernelInBothTypes) {
  const Measured all = measured(standard_probes(2));
  for (int k = 0; k < kNumKernels; ++k) {
    const auto kernel = static_cast<Kernel>(k);
    const bool is_of_fp32 = kernel != Kernel::kRound;  // only a step in bf16 rounds
    EXPECT_EQ(all.contains({32, kernel}), is_of_fp32) << kernel_table(kernel).key;
    EXPECT_TRUE(all.contains({16, kernel})) << kernel_table(kernel).key;
  }
}

TEST(StandardProbes, AreValidLayouts) {
  for (const int num_cores : {1, 2, 3, 8}) {
    for (const Probe& probe : standard_probes(num_cores)) {
      SCOPED_TRACE(probe.name);
      EXPECT_NO_THROW(check_layout(probe.request.spec, probe.request.layout, probe.request.batch));
    }
  }
}

TEST(StandardProbes, KeepAllCoresBusy) {
  for (const Probe& probe : standard_probes(4)) {
    const int threads = probe.request.layout.world() * probe.num_threads;
    EXPECT_TRUE(threads == 4 || (threads == 1 && probe.num_busy == 1)) << probe.name;
  }
}

}  // namespace
}  // namespace trireme
