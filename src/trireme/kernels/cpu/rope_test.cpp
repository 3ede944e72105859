#include "trireme/kernels/cpu/rope.h"

#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

/// One head: norm (empty weight: none), then the half-rotation by position * base^(-2i/D), fp64.
Doubles head_ref(const Doubles& x, const Doubles& norm, double eps, double position, double base) {
  const std::size_t dim = x.size(), half = dim / 2;
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double rstd = norm.empty() ? 1 : 1 / std::sqrt(squares / static_cast<double>(dim) + eps);
  Doubles normed = x, out(dim);
  for (std::size_t i = 0; i < dim; ++i) normed[i] *= norm.empty() ? 1 : rstd * norm[i];
  for (std::size_t i = 0; i < half; ++i) {
    const double angle =
        position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    out[i] = normed[i] * std::cos(angle) - normed[half + i] * std::sin(angle);
    out[half + i] = normed[half + i] * std::cos(angle) + normed[i] * std::sin(angle);
  }
  return out;
}

struct Case {
  explicit Case(const HeadsShape& s, std::int64_t positions = 32)
      : shape(s),
        width((s.heads + 2 * s.kv_heads) * s.head_dim),
        qkv(random_floats(s.batch * s.seq_len * width, 1)),
        cos(unwritten(positions * s.head_dim / 2)),
        sin(cos),
        q_norm(random_floats(s.head_dim, 2)),
        k_norm(random_floats(s.head_dim, 3)),
        q(unwritten(s.batch * s.heads * s.seq_len * s.head_dim)),
        k(unwritten(s.batch * s.kv_heads * s.cache_rows * s.head_dim)),
        v(k) {
    rope_table(positions, s.head_dim, 10000.0, cos.data(), sin.data());
  }
  void forward(bool with_norm, const IsaKernels& isa) {
    split_heads_forward(shape,
                        {.qkv = qkv.data(),
                         .cos = cos.data(),
                         .sin = sin.data(),
                         .q_norm = with_norm ? q_norm.data() : nullptr,
                         .k_norm = with_norm ? k_norm.data() : nullptr,
                         .q = q.data(),
                         .k = k.data(),
                         .v = v.data()},
                        isa);
  }
  HeadsShape shape;
  std::int64_t width;
  Floats qkv, cos, sin, q_norm, k_norm, q, k, v;
};

Doubles slice(const Floats& values, std::int64_t first, std::int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

class RopeTest : public IsaTest {};
TRI_FOR_EACH_ISA(RopeTest);

TEST_P(RopeTest, UnitVectorTurnsInTheHalfSplitLayout) {  // known fault B10
  Case c({.batch = 1,
          .seq_len = 1,
          .heads = 1,
          .kv_heads = 1,
          .head_dim = 4,
          .cache_rows = 1,
          .first_position = 1});
  c.qkv = {1, 0, 0, 0, 1, 0, 0, 0, 5, 6, 7, 8};
  c.forward(false, isa());
  const Doubles want = {0.540302, 0, 0.841471, 0};
  expect_near(c.q, want, 1e-6, "q");
  expect_near(c.k, want, 1e-6, "k");
  EXPECT_EQ(c.v, (Floats{5, 6, 7, 8}));
}

TEST_P(RopeTest, HeadsOfEverySampleGoToTheirRows) {
  for (const bool with_norm : {false, true}) {
    Case c({.batch = 2,
            .seq_len = 5,
            .heads = 3,
            .kv_heads = 1,
            .head_dim = 14,
            .cache_rows = 9,
            .first_row = 3,
            .first_position = 2});
    c.forward(with_norm, isa());
    const HeadsShape& s = c.shape;
    const auto expect_head = [&](const Floats& got, std::int64_t at, const Doubles& x,
                                 const Floats& norm, double position) {
      const Doubles want = head_ref(x, with_norm ? widened(norm) : Doubles{}, 1e-6, position, 1e4);
      const Doubles head = slice(got, at, s.head_dim);
      expect_near({head.begin(), head.end()}, want, sum_tolerance(14, largest_magnitude(want) + 1),
                  "head");
    };
    for (std::int64_t n = 0; n < 10; ++n) {
      const std::int64_t b = n / 5, t = n % 5, x = n * c.width;
      const auto position = static_cast<double>(2 + t);
      for (std::int64_t h = 0; h < 3; ++h) {
        expect_head(c.q, ((b * 3 + h) * 5 + t) * 14, slice(c.qkv, x + h * 14, 14), c.q_norm,
                    position);
      }
      const std::int64_t row = (b * 9 + 3 + t) * 14;
      expect_head(c.k, row, slice(c.qkv, x + 3 * 14, 14), c.k_norm, position);
      EXPECT_EQ(slice(c.v, row, 14), slice(c.qkv, x + 4 * 14, 14));
    }
    EXPECT_TRUE(std::isnan(c.k[0]));  // rows before first_row stay as they were
  }
}

TEST_P(RopeTest, NoTableMeansNoRotation) {
  const HeadsShape shape = {.batch = 1,
                            .seq_len = 1,
                            .heads = 1,
                            .kv_heads = 1,
                            .head_dim = 3,
                            .cache_rows = 1,
                            .first_position = 4};
  const Floats qkv = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Floats q(3), k(3), v(3);
  split_heads_forward(shape, {.qkv = qkv.data(), .q = q.data(), .k = k.data(), .v = v.data()},
                      isa());
  EXPECT_EQ(q, (Floats{1, 2, 3}));
  EXPECT_EQ(k, (Floats{4, 5, 6}));
  EXPECT_EQ(v, (Floats{7, 8, 9}));
}

struct Grads {
  Floats dqkv, dq_norm, dk_norm;
};
Grads backward(const Case& c, const Grads& start, bool accumulate, const IsaKernels& isa) {
  Grads grads = start;
  Scratch scratch(split_heads_backward_scratch_bytes(c.shape));
  const Floats dq = random_floats(static_cast<std::int64_t>(c.q.size()), 5);
  const Floats dk = random_floats(static_cast<std::int64_t>(c.k.size()), 6);
  const Floats dv = random_floats(static_cast<std::int64_t>(c.v.size()), 7);
  split_heads_backward(c.shape,
                       {.dq = dq.data(),
                        .dk = dk.data(),
                        .dv = dv.data(),
                        .qkv = c.qkv.data(),
                        .cos = c.cos.data(),
                        .sin = c.sin.data(),
                        .q_norm = c.q_norm.data(),
                        .k_norm = c.k_norm.data(),
                        .dqkv = grads.dqkv.data(),
                        .dq_norm = grads.dq_norm.data(),
                        .dk_norm = grads.dk_norm.data(),
                        .accumulate_dw = accumulate,
                        .scratch = scratch.at()},
                       isa);
  return grads;
}
Grads unwritten_grads(const Case& c) {
  return {unwritten(static_cast<std::int64_t>(c.qkv.size())), unwritten(c.shape.head_dim),
          unwritten(c.shape.head_dim)};
}

constexpr HeadsShape kTraining = {
    .batch = 2, .seq_len = 37, .heads = 3, .kv_heads = 1, .head_dim = 14, .cache_rows = 37};

TEST_P(RopeTest, BackwardEqualsFiniteDifferencesOfTheReference) {
  const Case c(kTraining, 64);
  const Grads grads = backward(c, unwritten_grads(c), false, isa());
  const Floats dq = random_floats(static_cast<std::int64_t>(c.q.size()), 5);
  const Floats dk = random_floats(static_cast<std::int64_t>(c.k.size()), 6);
  const Floats dv = random_floats(static_cast<std::int64_t>(c.v.size()), 7);
  const auto loss = [&](const Doubles& qkv, const Doubles& q_norm, const Doubles& k_norm) {
    double sum = 0;
    for (std::int64_t n = 0; n < 2 * 37; ++n) {
      for (std::int64_t h = 0; h < 5; ++h) {
        const auto first = qkv.begin() + n * c.width + h * 14;
        const Doubles x(first, first + 14);
        const std::int64_t b = n / 37, t = n % 37, kv_row = (b * 37 + t) * 14;
        const Doubles y =
            h == 4 ? x : head_ref(x, h == 3 ? k_norm : q_norm, 1e-6, static_cast<double>(t), 1e4);
        const Doubles dy = h == 4   ? slice(dv, kv_row, 14)
                           : h == 3 ? slice(dk, kv_row, 14)
                                    : slice(dq, ((b * 3 + h) * 37 + t) * 14, 14);
        for (std::size_t i = 0; i < 14; ++i) sum += y[i] * dy[i];
      }
    }
    return sum;
  };
  const Doubles qkv = widened(c.qkv), q_norm = widened(c.q_norm), k_norm = widened(c.k_norm);
  const auto slope_error = [&](const Floats& gradient, std::uint64_t seed,
                               const std::function<double(double)>& along) {
    double slope = 0, scale = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double term =
          static_cast<double>(gradient[i]) * static_cast<double>(philox_normal(seed, i));
      slope += term;
      scale += std::abs(term);
    }
    EXPECT_NEAR((along(1e-5) - along(-1e-5)) / 2e-5, slope, 8 * kEps * scale + 1e-7 * scale);
  };
  const auto moved = [](Doubles from, std::uint64_t seed, double step) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      from[i] += step * static_cast<double>(philox_normal(seed, i));
    }
    return from;
  };
  slope_error(grads.dqkv, 21, [&](double h) { return loss(moved(qkv, 21, h), q_norm, k_norm); });
  slope_error(grads.dq_norm, 22, [&](double h) { return loss(qkv, moved(q_norm, 22, h), k_norm); });
  slope_error(grads.dk_norm, 23, [&](double h) { return loss(qkv, q_norm, moved(k_norm, 23, h)); });
}

TEST_P(RopeTest, AccumulateAddsAndThreadsDoNotChangeBits) {
  const Case c(kTraining, 64);
  Grads one, two, sum;
  with_threads(1, [&] { one = backward(c, unwritten_grads(c), false, isa()); });
  with_threads(2, [&] { two = backward(c, unwritten_grads(c), false, isa()); });
  expect_same_bits(one.dqkv, two.dqkv, "dqkv");
  expect_same_bits(one.dq_norm, two.dq_norm, "dq_norm");
  const Grads start = {one.dqkv, random_floats(14, 8), random_floats(14, 9)};
  sum = backward(c, start, true, isa());
  for (std::size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(sum.dq_norm[i], start.dq_norm[i] + one.dq_norm[i]);
    EXPECT_EQ(sum.dk_norm[i], start.dk_norm[i] + one.dk_norm[i]);
  }
}

TEST(RopeTable, LastPositionIsExactInFp64) {
  Floats cos(1001), sin(1001);
  rope_table(1001, 2, 10000.0, cos.data(), sin.data());
  EXPECT_EQ(cos[1000], static_cast<float>(std::cos(1000.0)));
  EXPECT_EQ(sin[1000], static_cast<float>(std::sin(1000.0)));
}

}  // namespace
}  // namespace trireme::kernels
