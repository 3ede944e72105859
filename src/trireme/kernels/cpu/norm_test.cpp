#include "trireme/kernels/cpu/norm.h"

#include "trireme/kernels/cpu/norm_ref.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

struct NormCase {
  NormKind kind;
  std::int64_t num_tokens, hidden;
};
constexpr NormCase kCases[] = {{NormKind::kRms, 5, 7},     {NormKind::kLayer, 5, 7},
                               {NormKind::kRms, 1, 1},     {NormKind::kLayer, 3, 33},
                               {NormKind::kRms, 150, 768}, {NormKind::kLayer, 150, 101}};

struct NormInputs {
  explicit NormInputs(const NormCase& c)
      : shape{.kind = c.kind, .num_tokens = c.num_tokens, .hidden = c.hidden, .eps = 1e-5F},
        x(random_floats(c.num_tokens * c.hidden, 1)),
        delta(random_floats(c.num_tokens * c.hidden, 2)),
        dy(random_floats(c.num_tokens * c.hidden, 3)),
        weight(random_floats(c.hidden, 4)),
        bias(random_floats(c.hidden, 5)),
        h(unwritten(c.num_tokens * c.hidden)),
        y(h),
        stats(unwritten(norm_stats_elems(shape))) {}

  void forward(const IsaKernels& isa) {
    norm_forward(shape,
                 {.x = x.data(),
                  .delta = delta.data(),
                  .weight = weight.data(),
                  .bias = bias.data(),
                  .h = h.data(),
                  .y = y.data(),
                  .stats = stats.data()},
                 isa);
  }

  NormShape shape;
  Floats x, delta, dy, weight, bias, h, y, stats;
};

struct NormGrads {
  Floats dh, dweight, dbias;
};
NormGrads backward(const NormInputs& in, NormGrads start, bool accumulate, const IsaKernels& isa) {
  Scratch scratch(norm_backward_scratch_bytes(in.shape));
  norm_backward(in.shape,
                {.dy = in.dy.data(),
                 .h = in.h.data(),
                 .stats = in.stats.data(),
                 .weight = in.weight.data(),
                 .dh = start.dh.data(),
                 .dweight = start.dweight.data(),
                 .dbias = start.dbias.data(),
                 .accumulate_dh = accumulate,
                 .accumulate_dw = accumulate,
                 .scratch = scratch.at()},
                isa);
  return start;
}
NormGrads unwritten_grads(const NormInputs& in) {
  return {unwritten(in.shape.num_tokens * in.shape.hidden), unwritten(in.shape.hidden),
          unwritten(in.shape.hidden)};
}

class NormTest : public IsaTest {};
TRI_FOR_EACH_ISA(NormTest);

TEST_P(NormTest, ForwardEqualsTheReference) {
  for (const NormCase& c : kCases) {
    SCOPED_TRACE(c.hidden);
    NormInputs in(c);
    in.forward(isa());
    for (std::size_t i = 0; i < in.x.size(); ++i) ASSERT_EQ(in.h[i], in.x[i] + in.delta[i]);
    const NormRef ref =
        norm_forward_ref(in.shape, widened(in.h), widened(in.weight), widened(in.bias));
    const double scale = largest_magnitude(ref.y) + largest_magnitude(widened(in.bias));
    expect_near(in.y, ref.y, sum_tolerance(static_cast<double>(c.hidden), scale), "y");
  }
}

TEST_P(NormTest, StatsReproduceTheOutputBitForBit) {
  for (const NormCase& c : kCases) {
    NormInputs in(c);
    in.forward(isa());
    Floats again = unwritten(c.num_tokens * c.hidden);
    norm_from_stats(in.shape,
                    {.h = in.h.data(),
                     .stats = in.stats.data(),
                     .weight = in.weight.data(),
                     .bias = in.bias.data(),
                     .y = again.data()},
                    isa());
    expect_same_bits(in.y, again, "y");
  }
}

TEST_P(NormTest, BackwardEqualsTheReference) {
  for (const NormCase& c : kCases) {
    SCOPED_TRACE(c.hidden);
    NormInputs in(c);
    in.forward(isa());
    const NormGrads got = backward(in, unwritten_grads(in), false, isa());
    const NormGradRef ref =
        norm_backward_ref(in.shape, widened(in.dy), widened(in.h), widened(in.weight));
    const NormRef forward =
        norm_forward_ref(in.shape, widened(in.h), widened(in.weight), widened(in.bias));
    const double gradient =
        largest_magnitude(widened(in.dy)) * largest_magnitude(widened(in.weight));
    const double rstd = largest_magnitude(forward.rstd);
    // dh is a difference of three terms; each is at most gradient * rstd * sqrt(hidden).
    const double root = std::sqrt(static_cast<double>(c.hidden));
    expect_near(got.dh, ref.dh, sum_tolerance(root * root, gradient * rstd * std::sqrt(root)),
                "dh");
    const double token_term = largest_magnitude(widened(in.dy)) * std::min(root, 6.0);
    const auto tokens = static_cast<double>(c.num_tokens);
    expect_near(got.dweight, ref.dweight, sum_tolerance(tokens, token_term), "dweight");
    if (c.kind == NormKind::kLayer) {
      expect_near(got.dbias, ref.dbias, sum_tolerance(tokens, token_term), "dbias");
    }
  }
}

TEST_P(NormTest, AccumulateAddsToWhatIsThere) {
  for (const NormCase& c : kCases) {
    NormInputs in(c);
    in.forward(isa());
    const NormGrads once = backward(in, unwritten_grads(in), false, isa());
    NormGrads start = {random_floats(c.num_tokens * c.hidden, 8), random_floats(c.hidden, 9),
                       random_floats(c.hidden, 10)};
    const NormGrads sum = backward(in, start, true, isa());
    for (std::size_t i = 0; i < sum.dh.size(); ++i) ASSERT_EQ(sum.dh[i], start.dh[i] + once.dh[i]);
    for (std::size_t i = 0; i < sum.dweight.size(); ++i) {
      ASSERT_EQ(sum.dweight[i], start.dweight[i] + once.dweight[i]);
    }
  }
}

TEST_P(NormTest, ThreadsDoNotChangeBits) {
  NormInputs one(kCases[4]), two(kCases[4]);
  NormGrads grads_one, grads_two;
  with_threads(1, [&] {
    one.forward(isa());
    grads_one = backward(one, unwritten_grads(one), false, isa());
  });
  with_threads(2, [&] {
    two.forward(isa());
    grads_two = backward(two, unwritten_grads(two), false, isa());
  });
  expect_same_bits(one.y, two.y, "y");
  expect_same_bits(grads_one.dh, grads_two.dh, "dh");
  expect_same_bits(grads_one.dweight, grads_two.dweight, "dweight");
}

TEST_P(NormTest, InputGradientMayOverwriteTheOutputGradient) {
  NormInputs in(kCases[3]);
  in.forward(isa());
  const NormGrads apart = backward(in, unwritten_grads(in), false, isa());
  Scratch scratch(norm_backward_scratch_bytes(in.shape));
  Floats both = in.dy, dweight = in.weight, dbias = in.bias;
  norm_backward(in.shape,
                {.dy = both.data(),
                 .h = in.h.data(),
                 .stats = in.stats.data(),
                 .weight = in.weight.data(),
                 .dh = both.data(),
                 .dweight = dweight.data(),
                 .dbias = dbias.data(),
                 .scratch = scratch.at()},
                isa());
  expect_same_bits(both, apart.dh, "dh");
  expect_same_bits(dweight, apart.dweight, "dweight");
}

TEST(NormRefTest, GradientsEqualFiniteDifferences) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    const NormShape shape = {.kind = kind, .num_tokens = 3, .hidden = 7, .eps = 1e-5F};
    const Doubles h = widened(random_floats(21, 1)), weight = widened(random_floats(7, 2));
    const Doubles dy = widened(random_floats(21, 3)), bias(7);
    const auto loss = [&](const Doubles& at_h, const Doubles& at_weight) {
      const NormRef ref = norm_forward_ref(shape, at_h, at_weight, bias);
      double sum = 0;
      for (std::size_t i = 0; i < dy.size(); ++i) sum += dy[i] * ref.y[i];
      return sum;
    };
    const NormGradRef ref = norm_backward_ref(shape, dy, h, weight);
    expect_gradient([&](const Doubles& at) { return loss(at, weight); }, h, ref.dh, 11);
    expect_gradient([&](const Doubles& at) { return loss(h, at); }, weight, ref.dweight, 12);
  }
}

}  // namespace
}  // namespace trireme::kernels
