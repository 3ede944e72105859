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
                                   .pieces = {.first = 4}};
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
  embedding_backward(kShape, {.tokens = kTokens.data(),
                              .dh = dh.data(),
                              .dtable = twice.data(),
                              .accumulate_dtable = true});
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

/// Rows [first_row, first_row + vocab) of the vocabulary of kShape, on their own.
EmbeddingShape shard_of_rows(std::int64_t first_row, std::int64_t vocab) {
  EmbeddingShape shape = kShape;
  shape.vocab = vocab;
  shape.first_row = first_row;
  shape.is_shard = true;
  return shape;
}

TEST(Embedding, ShardReadsItsRowsAndZerosForTheOthers) {
  const Floats table = random_floats(35, 1);
  Floats h = unwritten(42);
  embedding_forward(shard_of_rows(1, 3), kTokens.data(), table.data() + 7, nullptr, h.data());
  for (std::size_t n = 0; n < 6; ++n) {
    for (std::size_t c = 0; c < 7; ++c) {
      const bool is_mine = kTokens[n] == 1;  // the others are 0 and 4
      EXPECT_EQ(h[n * 7 + c], is_mine ? table[7 + c] : 0.0F);
    }
  }
}

TEST(Embedding, ShardsAddUpToTheWholeTable) {
  const Floats table = random_floats(35, 1);
  Floats whole = unwritten(42), sum(42), part = unwritten(42);
  embedding_forward(kShape, kTokens.data(), table.data(), nullptr, whole.data());
  for (const std::int64_t first_row : {0, 1, 4}) {
    const std::int64_t num_rows = first_row == 1 ? 3 : 1;
    embedding_forward(shard_of_rows(first_row, num_rows), kTokens.data(),
                      table.data() + first_row * 7, nullptr, part.data());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  expect_same_bits(sum, whole, "h");
}

TEST(Embedding, ShardGradientIsItsRowsOfTheWhole) {
  const Floats dh = random_floats(42, 3);
  Floats whole = unwritten(35), shards = whole;
  embedding_backward(kShape, {.tokens = kTokens.data(), .dh = dh.data(), .dtable = whole.data()});
  for (const std::int64_t first_row : {0, 2}) {
    embedding_backward(
        shard_of_rows(first_row, first_row == 0 ? 2 : 3),
        {.tokens = kTokens.data(), .dh = dh.data(), .dtable = shards.data() + first_row * 7});
  }
  expect_same_bits(shards, whole, "dtable");
}

TEST(Embedding, PositionsAddedAfterwardsAreTheBitsOfBothTables) {
  const Floats table = random_floats(35, 1), positions = random_floats(63, 2);
  Floats both = unwritten(42), later = both;
  embedding_forward(kShape, kTokens.data(), table.data(), positions.data(), both.data());
  embedding_forward(kShape, kTokens.data(), table.data(), nullptr, later.data());
  add_positions(kShape, positions.data(), later.data());
  expect_same_bits(later, both, "h");
}

TEST(Embedding, PositionGradientNeedsNoTokens) {
  const Floats dh = random_floats(42, 3);
  Floats dtable = unwritten(35), both = unwritten(63), alone = both;
  embedding_backward(kShape, {.tokens = kTokens.data(),
                              .dh = dh.data(),
                              .dtable = dtable.data(),
                              .dposition = both.data()});
  embedding_backward(kShape, {.dh = dh.data(), .dposition = alone.data()});
  expect_same_bits(alone, both, "dposition");
}

}  // namespace
}  // namespace trireme::kernels
