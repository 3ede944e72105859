#include "trireme/kernels/cpu/activation.h"

#include <numbers>

#include "trireme/kernels/cpu/dropout.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double gelu(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}
/// Central difference; good to about 1e-10 for these smooth functions.
double slope(double (*f)(double), double x) {
  return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}

constexpr ActivationShape kShape = {.num_tokens = 5, .ffn = 37};

class ActivationTest : public IsaTest {};
TRI_FOR_EACH_ISA(ActivationTest);

TEST_P(ActivationTest, SwigluEqualsTheReference) {
  const Floats gate_up = random_floats(5 * 74, 1, 4.0F), d_act = random_floats(5 * 37, 2);
  Floats act = unwritten(5 * 37), grads = unwritten(5 * 74);
  swiglu_forward(kShape, gate_up.data(), act.data(), isa());
  swiglu_backward(kShape, gate_up.data(), d_act.data(), grads.data(), isa());
  Doubles want(act.size()), want_grads(grads.size());
  for (std::size_t n = 0; n < 5; ++n) {
    for (std::size_t i = 0; i < 37; ++i) {
      const auto gate = static_cast<double>(gate_up[n * 74 + i]);
      const auto up = static_cast<double>(gate_up[n * 74 + 37 + i]);
      const auto gradient = static_cast<double>(d_act[n * 37 + i]);
      want[n * 37 + i] = silu(gate) * up;
      want_grads[n * 74 + i] = gradient * up * slope(silu, gate);
      want_grads[n * 74 + 37 + i] = gradient * silu(gate);
    }
  }
  expect_near(act, want, 8 * kEps * largest_magnitude(want), "act");
  expect_near(grads, want_grads, 8 * kEps * largest_magnitude(want_grads), "d_gate_up");
}

TEST_P(ActivationTest, GeluEqualsTheReference) {
  const Floats x = random_floats(5 * 37, 1, 3.0F), d_act = random_floats(5 * 37, 2);
  Floats act = unwritten(5 * 37), dx = act;
  gelu_forward(kShape, x.data(), act.data(), isa());
  gelu_backward(kShape, x.data(), d_act.data(), dx.data(), isa());
  Doubles want(act.size()), want_dx(act.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    want[i] = gelu(static_cast<double>(x[i]));
    want_dx[i] = static_cast<double>(d_act[i]) * slope(gelu, static_cast<double>(x[i]));
  }
  expect_near(act, want, 8 * kEps * largest_magnitude(want), "act");
  expect_near(dx, want_dx, 16 * kEps * largest_magnitude(want_dx), "dx");
}

TEST_P(ActivationTest, LargeInputsSaturateAndNanPropagates) {
  const Floats x = {-200, 200, std::numeric_limits<float>::quiet_NaN(), 0};
  Floats act(4);
  gelu_forward({.num_tokens = 1, .ffn = 4}, x.data(), act.data(), isa());
  EXPECT_EQ(act[0], 0);
  EXPECT_EQ(act[1], 200);
  EXPECT_TRUE(std::isnan(act[2]));
  EXPECT_EQ(act[3], 0);
}

TEST_P(ActivationTest, ThreadsDoNotChangeBits) {
  const ActivationShape shape = {.num_tokens = 64, .ffn = 1030};
  const Floats x = random_floats(64 * 2060, 1);
  Floats one = unwritten(64 * 1030), two = one, gelu_one = one, gelu_two = one;
  with_threads(1, [&] {
    swiglu_forward(shape, x.data(), one.data(), isa());
    gelu_forward(shape, x.data(), gelu_one.data(), isa());
  });
  with_threads(2, [&] {
    swiglu_forward(shape, x.data(), two.data(), isa());
    gelu_forward(shape, x.data(), gelu_two.data(), isa());
  });
  expect_same_bits(one, two, "swiglu");
  expect_same_bits(gelu_one, gelu_two, "gelu");
}

TEST_P(ActivationTest, DropoutMaskIsTheScalarGenerators) {
  const std::int64_t samples[] = {3, 0x200000001};
  const DropoutShape shape = {.num_tokens = 6, .seq_len = 43, .channels = 101, .first_token = 40};
  const Floats x = random_floats(2 * 3 * 101, 1);
  Floats out = unwritten(2 * 3 * 101);
  dropout_forward(shape, {.key = 77, .p = 0.25F, .samples = samples}, x.data(), out.data(), isa());
  for (std::uint32_t n = 0; n < 6; ++n) {
    for (std::uint32_t c = 0; c < 101; ++c) {
      const auto sample = static_cast<std::uint64_t>(samples[(40 + n) / 43]);
      const PhiloxBlock bits =
          philox(77, {c / 64 * 16 + c % 16, (40 + n) % 43, static_cast<std::uint32_t>(sample),
                      static_cast<std::uint32_t>(sample >> 32)});
      const bool keep = uniform_from_bits(bits[c / 16 % 4]) >= 0.25F;
      const std::size_t i = std::size_t{n} * 101 + c;
      ASSERT_EQ(out[i], x[i] * (keep ? 1.0F / 0.75F : 0.0F)) << i;
    }
  }
}

TEST_P(ActivationTest, DropoutOfTwoSamplesEqualsEachAloneAndWorksInPlace) {
  const std::int64_t samples[] = {10, 11};
  const Floats x = random_floats(2 * 4 * 70, 1);
  Floats both = x, alone(x.begin() + 4 * 70, x.end());
  dropout_forward({.num_tokens = 8, .seq_len = 4, .channels = 70},
                  {.key = 5, .p = 0.5F, .samples = samples}, both.data(), both.data(), isa());
  dropout_backward({.num_tokens = 4, .seq_len = 4, .channels = 70},
                   {.key = 5, .p = 0.5F, .samples = samples + 1}, alone.data(), alone.data(),
                   isa());
  expect_same_bits(alone, {both.begin() + 4 * 70, both.end()}, "second sample");
}

TEST_P(ActivationTest, DropoutOfPiecesCutInsideASampleEqualsTheWhole) {
  const std::int64_t samples[] = {10, 7, 11};
  const DropoutSite site = {.key = 5, .p = 0.5F, .samples = samples};
  const Floats x = random_floats(3 * 5 * 70, 1);
  Floats whole = unwritten(3 * 5 * 70), pieces = whole;
  dropout_forward({.num_tokens = 15, .seq_len = 5, .channels = 70}, site, x.data(), whole.data(),
                  isa());
  constexpr std::int64_t kCuts[] = {0, 3, 4, 11, 15};
  for (int piece = 0; piece < 4; ++piece) {
    const std::int64_t begin = kCuts[piece];
    dropout_forward({.num_tokens = kCuts[piece + 1] - begin,
                     .seq_len = 5,
                     .channels = 70,
                     .first_token = begin},
                    site, x.data() + begin * 70, pieces.data() + begin * 70, isa());
  }
  expect_same_bits(pieces, whole, "out");
}

TEST_P(ActivationTest, DropoutKeepsItsShare) {
  const std::int64_t samples[] = {0};
  constexpr double kCount = 256.0 * 512, kDropped = 0.1;
  Floats x(256 * 512, 1.0F);
  dropout_forward({.num_tokens = 256, .seq_len = 256, .channels = 512},
                  {.key = 5, .p = 0.1F, .samples = samples}, x.data(), x.data(), isa());
  const auto zeros = static_cast<double>(std::count(x.begin(), x.end(), 0.0F));
  // Five standard deviations of the binomial distribution.
  EXPECT_NEAR(zeros, kCount * kDropped, 5 * std::sqrt(kCount * kDropped * (1 - kDropped)));
}

}  // namespace
}  // namespace trireme::kernels
