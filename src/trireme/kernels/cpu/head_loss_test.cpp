#include "trireme/kernels/cpu/head_loss.h"

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/head_loss_ref.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

struct Case {
  explicit Case(const HeadLossShape& s)
      : shape(s),
        x(random_floats(s.num_tokens * s.hidden, 1)),
        w(random_floats(s.vocab * s.hidden, 2, 0.5F)),
        dx(unwritten(s.num_tokens * s.hidden)),
        dw(unwritten(s.vocab * s.hidden)) {
    for (std::int64_t n = 0; n < s.num_tokens; ++n) {
      labels.push_back(n % 4 == 2 ? -1 : static_cast<std::int32_t>(n * 7 % s.vocab));
    }
  }
  double train(const IsaKernels& isa, bool accumulate = false) {
    HeadLoss head(shape, true);
    Scratch scratch(head.scratch_bytes());
    double loss = 0;
    head.train({.x = x.data(),
                .w = w.data(),
                .labels = labels.data(),
                .inv_tokens = &inv_tokens,
                .dx = dx.data(),
                .dw = dw.data(),
                .accumulate_dw = accumulate,
                .loss_sum = &loss,
                .scratch = scratch.at()},
               isa);
    return loss;
  }
  double evaluate(const IsaKernels& isa) const {
    HeadLoss head(shape, false);
    Scratch scratch(head.scratch_bytes());
    double loss = 0;
    head.evaluate({.x = x.data(),
                   .w = w.data(),
                   .labels = labels.data(),
                   .loss_sum = &loss,
                   .scratch = scratch.at()},
                  isa);
    return loss;
  }
  [[nodiscard]] HeadRef ref() const {
    return head_ref(shape, widened(x), widened(w), labels, static_cast<double>(inv_tokens));
  }
  HeadLossShape shape;
  Floats x, w, dx, dw;
  std::vector<std::int32_t> labels;
  float inv_tokens = 0.125F;
};

class HeadLossTest : public IsaTest {};
TRI_FOR_EACH_ISA(HeadLossTest);

TEST_P(HeadLossTest, EqualsTheReferenceWhateverTheChunk) {  // known fault A23
  for (const std::int64_t chunk : {1, 4, 256}) {
    for (const std::int64_t vocab : {5, 101, 2100}) {
      SCOPED_TRACE(testing::Message() << "chunk " << chunk << " vocab " << vocab);
      Case c({.num_tokens = 10, .hidden = 7, .vocab = vocab, .chunk_tokens = chunk});
      const double loss = c.train(isa());
      const HeadRef ref = c.ref();
      EXPECT_NEAR(loss, ref.loss, sum_tolerance(7 + 10, 1 + ref.loss));
      EXPECT_EQ(c.evaluate(isa()), loss);
      const double scale = 0.125 * 4 * 4;
      expect_near(c.dx, ref.dx, sum_tolerance(7 + 40, scale), "dx");
      expect_near(c.dw, ref.dw, sum_tolerance(7 + 40, scale), "dw");
    }
  }
}

TEST_P(HeadLossTest, ZeroWeightsGiveTheLogOfTheVocabulary) {  // known fault A08
  Case small({.num_tokens = 1, .hidden = 4, .vocab = 5});
  std::fill(small.w.begin(), small.w.end(), 0.0F);
  EXPECT_NEAR(small.train(isa()), 1.609438, 5e-7);
  Case gpt2({.num_tokens = 1, .hidden = 4, .vocab = 50257});
  std::fill(gpt2.w.begin(), gpt2.w.end(), 0.0F);
  EXPECT_NEAR(gpt2.train(isa()), 10.824905, 5e-7);
}

TEST_P(HeadLossTest, IgnoredLabelsHaveExactlyNoGradient) {
  Case c({.num_tokens = 10, .hidden = 7, .vocab = 5, .chunk_tokens = 4});
  c.train(isa());
  for (std::size_t i = 2 * 7; i < 3 * 7; ++i) EXPECT_EQ(c.dx[i], 0.0F);
  std::fill(c.labels.begin(), c.labels.end(), -1);
  EXPECT_EQ(c.train(isa()), 0.0);
  for (const float gradient : c.dw) EXPECT_EQ(gradient, 0.0F);
}

TEST_P(HeadLossTest, AccumulateAddsToTheWeightGradient) {
  Case once({.num_tokens = 10, .hidden = 7, .vocab = 11, .chunk_tokens = 4}), sum(once);
  once.train(isa());
  sum.dw = random_floats(77, 8);
  Doubles want = widened(once.dw);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += static_cast<double>(sum.dw[i]);
  sum.train(isa(), true);
  expect_near(sum.dw, want, sum_tolerance(10, 4), "dw");
}

TEST_P(HeadLossTest, NotANumberAndInfinityReachTheLoss) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t row : {0U, 3U, 100U}) {
      Case c({.num_tokens = 2, .hidden = 1, .vocab = 101});
      c.x[0] = c.x[1] = 1;
      c.w[row] = bad;
      EXPECT_TRUE(std::isnan(c.train(isa()))) << row;
      EXPECT_TRUE(std::isnan(c.evaluate(isa()))) << row;
    }
  }
}

TEST_P(HeadLossTest, RerunRepeatsBitsUnderAnyThreadCount) {
  const Case start({.num_tokens = 70, .hidden = 33, .vocab = 1000, .chunk_tokens = 32});
  for (const int num_threads : {1, 2}) {
    Case first(start), again(start);
    with_threads(num_threads, [&] {
      EXPECT_EQ(first.train(isa()), again.train(isa()));
      EXPECT_EQ(first.evaluate(isa()), again.train(isa()));
    });
    expect_same_bits(first.dx, again.dx, "dx");
    expect_same_bits(first.dw, again.dw, "dw");
    const HeadRef ref = start.ref();
    expect_near(first.dx, ref.dx, sum_tolerance(33 + 1000, 0.125 * 2 * 4), "dx");
    expect_near(first.dw, ref.dw, sum_tolerance(33 + 70, 0.125 * 2 * 4), "dw");
  }
}

TEST(HeadLoss, LogitsProductEqualsTheDotProduct) {
  Matmul logits(logits_product(1, 3, 5));
  const Floats x = {1, 2, 3}, w = random_floats(15, 1);
  Floats out = unwritten(5);
  Scratch scratch(logits.scratch_bytes());
  logits.run(x.data(), w.data(), nullptr, out.data(), scratch.at());
  for (std::size_t j = 0; j < 5; ++j) {
    EXPECT_NEAR(out[j], w[j * 3] + 2 * w[j * 3 + 1] + 3 * w[j * 3 + 2], 32 * kEps);
  }
}

TEST(HeadLoss, RefusesAnEmptySizeAndALabelOutsideTheVocabulary) {
  EXPECT_THROW(HeadLoss({.num_tokens = 0, .hidden = 1, .vocab = 1}, false), UsageError);
  Case c({.num_tokens = 1, .hidden = 2, .vocab = 5});
  c.labels[0] = 5;
  EXPECT_THROW(c.evaluate(isa_kernels()), InternalError);
}

}  // namespace
}  // namespace trireme::kernels
