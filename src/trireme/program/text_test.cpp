#include "trireme/program/text.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

TEST(ProgramText, ParsesBackToTheSameProgram) {
  for (const ModelSpec& spec : {small_llama(), small_gpt2()}) {
    const Program program = build_train(
        small_request({.dp = 2, .zero = 1, .bucket_mib = 0.001, .recompute = Recompute::kFull},
                      {.seq = 8, .global_batch = 8}, spec));
    const std::vector<Program> parsed = parse_programs(program_text(program));
    ASSERT_EQ(parsed.size(), 1U);
    EXPECT_EQ(program_text(parsed[0]), program_text(program));
    EXPECT_EQ(parsed[0], program);
  }
}

}  // namespace
}  // namespace trireme
