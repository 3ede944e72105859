#include "trireme/program/build.h"

#include <gtest/gtest.h>

#include "trireme/program/place.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/text.h"

namespace trireme {
namespace {

TEST(Build, TrainProgramHasOneCallPerMicroBatch) {
  const Program program =
      build_train(small_request({.dp = 2}, {.seq = 8, .micro_batch = 1, .global_batch = 8}));
  std::vector<int> micro_batches;
  for (const Call& call : program.calls) {
    if (call.micro_batch >= 0) micro_batches.push_back(call.micro_batch);
  }
  EXPECT_EQ(micro_batches, (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace trireme
