#include "trireme/model/flops.h"

#include <limits>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/model/known_models_ref.h"

namespace trireme {
namespace {

// known_faults D06, after torchtitan PR #280.
TEST(FlopsPerToken, MatchLlama3With8BAt8192Tokens) {
  const FlopsPerToken flops = flops_per_token(known_models::llama_3_8b(), 8192);
  EXPECT_EQ(flops.matmul, 45'029'548'032);
  EXPECT_EQ(flops.attention_full, 12'884'901'888);
  EXPECT_EQ(flops.attention_causal, 6'442'450'944);
  EXPECT_EQ(flops.full(), 57'914'449'920);
  EXPECT_EQ(flops.causal(), 51'471'998'976);
}

TEST(FlopsPerToken, ATiedTableCountsOnceAsTheHead) {
  EXPECT_EQ(flops_per_token(known_models::qwen2_5_0_5b(), 1).matmul, 6LL * 494'032'768);
}

TEST(FlopsPerToken, LearnedPositionsAreNoMatrixProduct) {
  EXPECT_EQ(flops_per_token(known_models::gpt2_124m(), 1).matmul, 6LL * (124'439'808 - 1024 * 768));
}

TEST(FlopsPerToken, AttentionCountsTheWidthOfTheHeadsNotOfTheModel) {
  // Qwen3-32B: 64 heads of 128 = 8192 channels, while hidden is 5120.
  EXPECT_EQ(flops_per_token(known_models::qwen3_32b(), 4096).attention_full,
            12LL * 64 * 8192 * 4096);
}

TEST(FlopsPerToken, TimesTokensAreSixTimesParametersAtFirstOrder) {
  // 6 * N * tokens: the part of a matrix product, here of 4 Mi tokens, without the input table.
  const std::int64_t tokens = std::int64_t{4} << 20;
  const std::int64_t num_matmul_params = 8'030'261'248 - 128256LL * 4096;
  EXPECT_EQ(flops_per_token(known_models::llama_3_8b(), 8192).matmul * tokens,
            6 * num_matmul_params * tokens);
}

TEST(FlopsPerToken, RefuseASequenceBeyond64Bits) {
  const auto count = [](std::int64_t seq) {
    static_cast<void>(flops_per_token(known_models::llama_3_8b(), seq));
  };
  EXPECT_THROW(count(std::numeric_limits<std::int64_t>::max()), UsageError);
  EXPECT_NO_THROW(count(std::int64_t{1} << 31));
}

// Korthikanti et al. 2022, equation 1, with the sizes of the paper's 22B model (table 3):
// 2048 * 4 * 6144 * (34 + 5 * 64 * 2048 / 6144).
TEST(GptLayerActivationBytes, MatchTheClosedForm) {
  EXPECT_EQ(gpt_layer_activation_bytes(2048, 4, 6144, 64), 7'079'985'152);
}

TEST(GptLayerActivationBytes, StayExactWhenHiddenDoesNotDivideTheScores) {
  EXPECT_EQ(gpt_layer_activation_bytes(5, 1, 7, 3), 34 * 5 * 7 + 5 * 3 * 5 * 5);
}

}  // namespace
}  // namespace trireme
