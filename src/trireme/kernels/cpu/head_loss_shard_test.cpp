#include "trireme/kernels/cpu/head_loss_shard.h"

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/head_loss_ref.h"
#include "trireme/kernels/cpu/test_support.h"
#include "trireme/kernels/cpu/vector/isa_kernels.h"

namespace trireme::kernels {
namespace {

/// One rank: its rows of the vocabulary and what its phases write. Letters as in the header.
struct Rank {
  Rank(const HeadLossShape& full, std::int64_t first, std::int64_t vocab, bool training)
      : first_row(first),
        head({.chunk_tokens = full.chunk_tokens,
              .last_chunk_tokens = full.num_tokens % full.chunk_tokens,
              .hidden = full.hidden,
              .vocab = vocab},
             training),
        scratch(head.scratch_bytes()),
        logits(unwritten(full.chunk_tokens * vocab)),
        row_max(unwritten(full.chunk_tokens)),
        sums(unwritten(2 * full.chunk_tokens)),
        dx(unwritten(full.chunk_tokens * full.hidden)) {}
  std::int64_t first_row;
  HeadLossShard<> head;
  Scratch scratch;
  Floats logits, row_max, sums, dx;
  double loss = 0;
};

struct Problem {
  explicit Problem(const HeadLossShape& s)
      : shape(s),
        x(random_floats(s.num_tokens * s.hidden, 1)),
        w(random_floats(s.vocab * s.hidden, 2, 0.5F)) {
    for (std::int64_t n = 0; n < s.num_tokens; ++n) {
      labels.push_back(n % 4 == 2 ? -1 : static_cast<std::int32_t>(n * 37 % s.vocab));
    }
  }
  HeadLossShape shape;
  Floats x, w;
  std::vector<std::int32_t> labels;
  float inv_tokens = 0.125F;
};

struct Result {
  double loss = 0;
  Floats dx, dw;
};

/// The ranks of a group, whose reductions are loops.
class Group {
 public:
  Group(const Problem& problem, const std::vector<std::int64_t>& vocabs, bool training)
      : problem_(problem) {
    std::int64_t first_row = 0;
    for (const std::int64_t vocab : vocabs) {
      ranks_.emplace_back(problem.shape, first_row, vocab, training);
      first_row += vocab;
    }
  }

  /// `dw` holds what dw is added to when `accumulate_dw`.
  Result train(const IsaKernels& isa, const Floats& dw = {}) {
    const HeadLossShape& s = problem_.shape;
    Result result = {.dx = Floats(problem_.x.size()),
                     .dw = dw.empty() ? unwritten(s.vocab * s.hidden) : dw};
    for_chunks([&](std::int64_t first, std::int64_t num) {
      until_sums(first, num, isa);
      for (Rank& rank : ranks_) {
        rank.head.gradient({.num_tokens = num,
                            .x = problem_.x.data() + first * s.hidden,
                            .w = problem_.w.data() + rank.first_row * s.hidden,
                            .labels = problem_.labels.data() + first,
                            .first_row = rank.first_row,
                            .row_max = rank.row_max.data(),
                            .sums = rank.sums.data(),
                            .logits = rank.logits.data(),
                            .inv_tokens = &problem_.inv_tokens,
                            .dx = rank.dx.data(),
                            .dw = result.dw.data() + rank.first_row * s.hidden,
                            .accumulate_dw = !dw.empty() || first > 0,
                            .loss_sum = &rank.loss,
                            .scratch = rank.scratch.at()},
                           isa);
        float* const dx = result.dx.data() + first * s.hidden;
        for (std::int64_t i = 0; i < num * s.hidden; ++i) {
          dx[i] += rank.dx[static_cast<std::size_t>(i)];
        }
      }
    });
    result.loss = loss_of_all();
    return result;
  }

  double evaluate(const IsaKernels& isa) {
    for_chunks([&](std::int64_t first, std::int64_t num) {
      until_sums(first, num, isa);
      for (Rank& rank : ranks_) {
        HeadLossShard<>::loss({.num_tokens = num,
                               .labels = problem_.labels.data() + first,
                               .sums = rank.sums.data(),
                               .loss_sum = &rank.loss});
      }
    });
    return loss_of_all();
  }

  /// Runs the first two phases on tokens [first, first + num) and reduces what they write.
  void until_sums(std::int64_t first, std::int64_t num, const IsaKernels& isa) {
    for (Rank& rank : ranks_) {
      rank.head.logits({.num_tokens = num,
                        .x = problem_.x.data() + first * problem_.shape.hidden,
                        .w = problem_.w.data() + rank.first_row * problem_.shape.hidden,
                        .logits = rank.logits.data(),
                        .row_max = rank.row_max.data(),
                        .scratch = rank.scratch.at()},
                       isa);
    }
    // This maximum may drop a NaN: the loss must be NaN all the same.
    reduce(&Rank::row_max, num, [](float a, float b) { return a < b ? b : a; });
    for (Rank& rank : ranks_) {
      rank.head.sums({.num_tokens = num,
                      .logits = rank.logits.data(),
                      .labels = problem_.labels.data() + first,
                      .first_row = rank.first_row,
                      .row_max = rank.row_max.data(),
                      .sums = rank.sums.data()},
                     isa);
    }
    reduce(&Rank::sums, 2 * num, [](float a, float b) { return a + b; });
  }

  [[nodiscard]] const Rank& rank(std::size_t index) const { return ranks_[index]; }

 private:
  template <typename Body>
  void for_chunks(Body body) {
    for (Rank& rank : ranks_) rank.loss = 0;
    const HeadLossShape& s = problem_.shape;
    for (std::int64_t first = 0; first < s.num_tokens; first += s.chunk_tokens) {
      body(first, std::min(s.chunk_tokens, s.num_tokens - first));
    }
  }

  template <typename Combine>
  void reduce(Floats Rank::*values, std::int64_t count, Combine combine) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      float all = (ranks_.front().*values)[i];
      for (std::size_t r = 1; r < ranks_.size(); ++r) all = combine(all, (ranks_[r].*values)[i]);
      for (Rank& rank : ranks_) (rank.*values)[i] = all;
    }
  }

  [[nodiscard]] double loss_of_all() const {
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(std::memcmp(&rank.loss, &ranks_.front().loss, sizeof(double)), 0);
    }
    return ranks_.front().loss;
  }

  const Problem& problem_;
  std::vector<Rank> ranks_;
};

Result whole(const Problem& problem, const IsaKernels& isa) {
  HeadLoss head(problem.shape, true);
  Scratch scratch(head.scratch_bytes());
  Result result = {.dx = Floats(problem.x.size()), .dw = Floats(problem.w.size())};
  head.train({.x = problem.x.data(),
              .w = problem.w.data(),
              .labels = problem.labels.data(),
              .inv_tokens = &problem.inv_tokens,
              .dx = result.dx.data(),
              .dw = result.dw.data(),
              .loss_sum = &result.loss,
              .scratch = scratch.at()},
             isa);
  return result;
}

HeadRef ref_of(const Problem& problem) {
  return head_ref(problem.shape, widened(problem.x), widened(problem.w), problem.labels,
                  static_cast<double>(problem.inv_tokens));
}

void expect_equal(const Result& got, double loss, const Doubles& dx, const Doubles& dw) {
  EXPECT_NEAR(got.loss, loss, 1e-5 * std::abs(loss));
  expect_near(got.dx, dx, 1e-5 * largest_magnitude(dx), "dx");
  expect_near(got.dw, dw, 1e-5 * largest_magnitude(dw), "dw");
}

class HeadLossShardTest : public IsaTest {
 protected:
  /// Chunks of 4, 4 and 2 tokens; labels 0, 37, 10, 47, 84, 20, 57, -1 … lie in every shard below.
  static constexpr HeadLossShape kShape = {
      .num_tokens = 10, .hidden = 7, .vocab = 101, .chunk_tokens = 4};
};
TRI_FOR_EACH_ISA(HeadLossShardTest);

TEST_P(HeadLossShardTest, EqualsTheWholeHeadAndTheReference) {
  const Problem problem(kShape);
  const Result unsplit = whole(problem, isa());
  const HeadRef ref = ref_of(problem);
  for (const std::vector<std::int64_t>& vocabs :
       std::vector<std::vector<std::int64_t>>{{101}, {40, 61}, {13, 51, 37}}) {
    SCOPED_TRACE(testing::Message() << vocabs.size() << " shards");
    const Result got = Group(problem, vocabs, true).train(isa());
    expect_equal(got, unsplit.loss, widened(unsplit.dx), widened(unsplit.dw));
    expect_equal(got, ref.loss, ref.dx, ref.dw);
  }
}

TEST_P(HeadLossShardTest, SumsOfLongRowsEqualTheReference) {
  const Problem problem({.num_tokens = 3, .hidden = 5, .vocab = 5003, .chunk_tokens = 3});
  const HeadRef ref = ref_of(problem);
  const Result got = Group(problem, {2100, 2903}, true).train(isa());
  expect_equal(got, ref.loss, ref.dx, ref.dw);
}

TEST_P(HeadLossShardTest, EvaluationAddsTheBitsOfTraining) {
  const Problem problem(kShape);
  EXPECT_EQ(Group(problem, {40, 61}, false).evaluate(isa()),
            Group(problem, {40, 61}, true).train(isa()).loss);
}

TEST_P(HeadLossShardTest, AccumulateAddsToTheWeightGradient) {
  const Problem problem(kShape);
  const Floats before = random_floats(101 * 7, 8);
  const Result once = Group(problem, {40, 61}, true).train(isa());
  const Result added = Group(problem, {40, 61}, true).train(isa(), before);
  Doubles want = widened(once.dw);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += static_cast<double>(before[i]);
  expect_near(added.dw, want, sum_tolerance(10, 4), "dw");
}

TEST_P(HeadLossShardTest, IgnoredLabelsAddExactlyNothing) {
  Problem problem(kShape);
  std::fill(problem.labels.begin(), problem.labels.end(), -1);
  Group group(problem, {40, 61}, true);
  const Result got = group.train(isa());
  EXPECT_EQ(got.loss, 0.0);
  for (const float value : got.dx) EXPECT_EQ(value, 0.0F);
  for (const float value : got.dw) EXPECT_EQ(value, 0.0F);
  group.until_sums(0, 4, isa());
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(group.rank(0).sums[i], 0.0F);
}

TEST_P(HeadLossShardTest, AnotherRanksLabelLeavesThePlainSoftmax) {
  Problem problem({.num_tokens = 1, .hidden = 1, .vocab = 4, .chunk_tokens = 1});
  std::fill(problem.w.begin(), problem.w.end(), 0.0F);
  problem.labels = {3};
  Group group(problem, {2, 2}, true);
  EXPECT_NEAR(group.train(isa()).loss, 1.386294, 5e-7);  // ln 4
  EXPECT_EQ(group.rank(0).logits, (Floats{0.03125F, 0.03125F}));
  EXPECT_EQ(group.rank(1).logits, (Floats{0.03125F, -0.09375F}));
}

TEST_P(HeadLossShardTest, LargeNegativeLogitsDoNotUnderflow) {
  Problem problem({.num_tokens = 2, .hidden = 1, .vocab = 40, .chunk_tokens = 2});
  problem.x = {1, 2};
  for (std::size_t j = 0; j < 40; ++j) problem.w[j] = -5000.0F - 0.25F * static_cast<float>(j);
  problem.labels = {3, 30};
  const HeadRef ref = ref_of(problem);
  const Result got = Group(problem, {11, 29}, true).train(isa());
  EXPECT_NEAR(got.loss, ref.loss, 1e-5 * ref.loss);
  expect_near(got.dx, ref.dx, sum_tolerance(40, 0.125 * 5010), "dx");  // its large terms cancel
  expect_near(got.dw, ref.dw, 1e-5 * largest_magnitude(ref.dw), "dw");
}

TEST_P(HeadLossShardTest, ShardFarBelowTheOthersHasNoPart) {
  Problem problem({.num_tokens = 1, .hidden = 1, .vocab = 4, .chunk_tokens = 1});
  problem.x = {1};
  problem.w = {-1e30F, -3e38F, 2, 2};
  problem.labels = {2};
  const Result got = Group(problem, {2, 2}, true).train(isa());
  EXPECT_NEAR(got.loss, 0.693147, 5e-7);  // ln 2
  EXPECT_EQ(got.dw, (Floats{0, 0, -0.0625F, 0.0625F}));
}

TEST_P(HeadLossShardTest, NotANumberAndInfinityReachTheLossOfEveryRank) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t row : {0U, 3U, 39U, 40U, 100U}) {
      Problem problem({.num_tokens = 1, .hidden = 1, .vocab = 101, .chunk_tokens = 1});
      problem.x = {1};
      problem.w[row] = bad;
      EXPECT_TRUE(std::isnan(Group(problem, {40, 61}, true).train(isa()).loss)) << row;
      EXPECT_TRUE(std::isnan(Group(problem, {40, 61}, false).evaluate(isa()))) << row;
    }
  }
}

TEST_P(HeadLossShardTest, RowMaxIsTheLargestOrNotANumber) {
  for (const std::int64_t count : {1, 3, 16, 40, 101}) {
    Floats row = random_floats(count, 5, 10.0F);
    for (float& value : row) value -= 100;
    EXPECT_EQ(isa().f32.row_max(row.data(), count), *std::max_element(row.begin(), row.end()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      Floats bad = row;
      bad[i] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(isa().f32.row_max(bad.data(), count))) << i << " of " << count;
    }
  }
}

TEST_P(HeadLossShardTest, ThreadsDoNotChangeBits) {
  const Problem problem({.num_tokens = 70, .hidden = 3, .vocab = 2000, .chunk_tokens = 70});
  std::vector<Floats> row_max, sums, gradients;
  std::vector<double> losses;
  for (const int num_threads : {1, 2}) {
    with_threads(num_threads, [&] {
      Group group(problem, {900, 1100}, true);
      losses.push_back(group.train(isa()).loss);
      row_max.push_back(group.rank(1).row_max);
      sums.push_back(group.rank(1).sums);
      gradients.push_back(group.rank(1).logits);
    });
  }
  EXPECT_EQ(losses[0], losses[1]);
  expect_same_bits(row_max[0], row_max[1], "row_max");
  expect_same_bits(sums[0], sums[1], "sums");
  expect_same_bits(gradients[0], gradients[1], "logits");
}

TEST(HeadLossShard, RefusesAnEmptySize) {
  EXPECT_THROW(HeadLossShard({.chunk_tokens = 4, .hidden = 3}, false), UsageError);
}

TEST(HeadLossShard, RefusesATokenCountThatIsNoChunkAndGradientsWithoutTraining) {
  HeadLossShard<> head({.chunk_tokens = 4, .last_chunk_tokens = 1, .hidden = 3, .vocab = 5}, false);
  EXPECT_THROW(head.logits({.num_tokens = 3}), InternalError);
  EXPECT_THROW(head.gradient({.num_tokens = 4}), InternalError);
}

}  // namespace
}  // namespace trireme::kernels
