#include "trireme/kernels/cpu/optimizer.h"

#include "trireme/kernels/cpu/elementwise.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

constexpr AdamwScalars kScalars = {.lr = 1e-2,
                                   .weight_decay = 0.1,
                                   .bias_correction1 = 1 - 0.729,
                                   .bias_correction2 = 1 - 0.857375,
                                   .grad_scale = 0.5F};

struct State {
  explicit State(std::int64_t count)
      : param(random_floats(count, 1)),
        m(random_floats(count, 2)),
        v(random_floats(count, 3)),
        grad(random_floats(count, 4)) {
    for (float& value : v) value *= value;
  }
  void step(std::int64_t begin, std::int64_t end, const IsaKernels& isa) {
    adamw_step({.param = param.data() + begin,
                .m = m.data() + begin,
                .v = v.data() + begin,
                .grad = grad.data() + begin,
                .count = end - begin},
               kScalars, isa);
  }
  Floats param, m, v, grad;
};

class OptimizerTest : public IsaTest {};
TRI_FOR_EACH_ISA(OptimizerTest);

TEST_P(OptimizerTest, AdamwEqualsTheReference) {
  State state(101);
  const State before = state;
  state.step(0, 101, isa());
  Doubles param, m, v;
  for (std::size_t i = 0; i < 101; ++i) {
    const double grad = 0.5 * static_cast<double>(before.grad[i]);
    m.push_back(0.9 * static_cast<double>(before.m[i]) + 0.1 * grad);
    v.push_back(0.95 * static_cast<double>(before.v[i]) + 0.05 * grad * grad);
    const double decayed = static_cast<double>(before.param[i]) * (1 - 1e-2 * 0.1);
    param.push_back(decayed - 1e-2 * (m[i] / kScalars.bias_correction1) /
                                  (std::sqrt(v[i] / kScalars.bias_correction2) + 1e-8));
  }
  // A step can be large where v is tiny, so errors are relative to the largest parameter.
  expect_near(state.m, m, 4 * kEps * largest_magnitude(m), "m");
  expect_near(state.v, v, 4 * kEps * largest_magnitude(v), "v");
  expect_near(state.param, param, 8 * kEps * largest_magnitude(param), "param");
}

TEST_P(OptimizerTest, AdamwBitsDoNotDependOnCuts) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    State whole(203), cut(203);
    whole.step(0, 203, isa());
    std::int64_t begin = 0;
    for (std::uint64_t i = 0; begin < 203; ++i) {
      const auto length = static_cast<std::int64_t>(philox(seed, philox_counter(i, 0))[0] % 40);
      const std::int64_t end = std::min<std::int64_t>(203, begin + length);
      cut.step(begin, end, isa());
      begin = end;
    }
    expect_same_bits(whole.param, cut.param, "param");
    expect_same_bits(whole.m, cut.m, "m");
    expect_same_bits(whole.v, cut.v, "v");
  }
}

TEST_P(OptimizerTest, ThreadsDoNotChangeBits) {
  State one(70001), two(70001);
  double squares_one = 0, squares_two = 0;
  with_threads(1, [&] {
    squares_one = sum_of_squares(one.grad.data(), 70001, isa());
    one.step(0, 70001, isa());
  });
  with_threads(2, [&] {
    squares_two = sum_of_squares(two.grad.data(), 70001, isa());
    two.step(0, 70001, isa());
  });
  EXPECT_EQ(squares_one, squares_two);
  expect_same_bits(one.param, two.param, "param");
}

TEST_P(OptimizerTest, SumOfSquaresIsExactForSmallIntegers) {
  Floats x(10001);
  double want = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 100);
    want += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  EXPECT_EQ(sum_of_squares(x.data(), 10001, isa()), want);
  EXPECT_EQ(sum_of_squares(x.data(), 0, isa()), 0);
  x[5000] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(sum_of_squares(x.data(), 10001, isa())));
}

TEST_P(OptimizerTest, RanksReduceInRankOrder) {
  const std::int64_t count = 37;
  const Floats a = random_floats(count, 1), b = random_floats(count, 2, 1e4F);
  const Floats c = random_floats(count, 3, 1e-4F);
  const float* const inputs[] = {a.data(), b.data(), c.data()};
  Floats out = unwritten(count), sum = a;
  reduce_ranks(out.data(), inputs, 3, count, isa());
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], (a[i] + b[i]) + c[i]);
  add(sum.data(), b.data(), count, isa());
  add(sum.data(), c.data(), count, isa());
  expect_same_bits(out, sum, "add");
}

TEST(Elementwise, DoublesReduceInRankOrderAndZeroFills) {
  const Doubles a = {1, 1e16}, b = {2, 1}, c = {3, -1e16};
  const double* const inputs[] = {a.data(), b.data(), c.data()};
  Doubles out(2);
  reduce_ranks(out.data(), inputs, 3, 2);
  EXPECT_EQ(out, (Doubles{6, (1e16 + 1) - 1e16}));
  Floats zero(5, 1.0F);
  fill_zero(zero.data(), 4);
  EXPECT_EQ(zero, (Floats{0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace trireme::kernels
