#include "trireme/kernels/cpu/embedding.h"

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

constexpr EmbeddingShape kShape = {.num_tokens = 6,
                                   .seq_len = 3,
                                   .hidden = 7,
                                   .vocab = 5,
                                   .max_positions = 9,
                                   .first_position = 4};
const std::vector<std::int32_t> kTokens = {4, 0, 4, 1, 4, 0};

TEST(Embedding, RowsAreTokenPlusPosition) {
  const Floats table = random_floats(35, 1), positions = random_floats(63, 2);
  Floats h = unwritten(42), plain = h;
  embedding_forward(kShape, kTokens.data(), table.data(), positions.data(), h.data());
  embedding_forward(kShape, kTokens.data(), table.data(), nullptr, plain.data());
  for (std::size_t n = 0; n < 6; ++n) {
    for (std::size_t c = 0; c < 7; ++c) {
      const float token = table[static_cast<std::size_t>(kTokens[n]) * 7 + c];
      EXPECT_EQ(plain[n * 7 + c], token);
      EXPECT_EQ(h[n * 7 + c], token + positions[(4 + n % 3) * 7 + c]);
    }
  }
}

TEST(Embedding, BackwardAddsTokensInAscendingOrder) {
  const Floats dh = random_floats(42, 3);
  Floats dtable = unwritten(35), dposition = unwritten(63);
  embedding_backward(kShape, {.tokens = kTokens.data(),
                              .dh = dh.data(),
                              .dtable = dtable.data(),
                              .dposition = dposition.data()});
  Floats want_table(35), want_position(63);
  for (std::size_t n = 0; n < 6; ++n) {
    for (std::size_t c = 0; c < 7; ++c) {
      want_table[static_cast<std::size_t>(kTokens[n]) * 7 + c] += dh[n * 7 + c];
      want_position[(4 + n % 3) * 7 + c] += dh[n * 7 + c];
    }
  }
  expect_same_bits(dtable, want_table, "dtable");
  expect_same_bits(dposition, want_position, "dposition");
}

TEST(Embedding, AccumulateKeepsWhatIsThere) {
  const Floats dh = random_floats(42, 3);
  Floats once(35), twice(35);
  embedding_backward(kShape, {.tokens = kTokens.data(), .dh = dh.data(), .dtable = once.data()});
  embedding_backward(kShape, {.tokens = kTokens.data(), .dh = dh.data(), .dtable = twice.data()});
  embedding_backward(
      kShape,
      {.tokens = kTokens.data(), .dh = dh.data(), .dtable = twice.data(), .accumulate = true});
  expect_near(
      twice,
      [&] {
        Doubles want = widened(once);
        for (double& value : want) value *= 2;
        return want;
      }(),
      sum_tolerance(6, 4), "dtable");
}

TEST(Embedding, ThreadsDoNotChangeBits) {
  const EmbeddingShape shape = {.num_tokens = 200, .seq_len = 100, .hidden = 150, .vocab = 5};
  std::vector<std::int32_t> tokens(200);
  for (std::size_t n = 0; n < 200; ++n) tokens[n] = static_cast<std::int32_t>(n * n % 5);
  const Floats dh = random_floats(200 * 150, 1);
  Floats one = unwritten(750), two = one;
  with_threads(1, [&] {
    embedding_backward(shape, {.tokens = tokens.data(), .dh = dh.data(), .dtable = one.data()});
  });
  with_threads(2, [&] {
    embedding_backward(shape, {.tokens = tokens.data(), .dh = dh.data(), .dtable = two.data()});
  });
  expect_same_bits(one, two, "dtable");
}

TEST(Embedding, RefusesATokenOutsideTheVocabulary) {
  const std::int32_t token = 5;
  const Floats table(35);
  Floats h(7);
  EXPECT_THROW(embedding_forward({.num_tokens = 1, .seq_len = 1, .hidden = 7, .vocab = 5}, &token,
                                 table.data(), nullptr, h.data()),
               InternalError);
}

}  // namespace
}  // namespace trireme::kernels
