#include "trireme/kernels/cpu/matmul.h"

#include <thread>

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

/// Rows, columns and depth of the output of each kind, and where element (row, depth) of a and
/// (depth, column) of b lie.
Doubles product_ref(const MatmulShape& s, const Floats& a, const Floats& b) {
  const std::int64_t rows = s.kind == MatmulKind::kWeightGrad ? s.n : s.m;
  const std::int64_t columns = s.kind == MatmulKind::kForward ? s.n : s.k;
  const std::int64_t depth = s.kind == MatmulKind::kForward     ? s.k
                             : s.kind == MatmulKind::kInputGrad ? s.n
                                                                : s.m;
  Doubles out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (std::int64_t d = 0; d < depth; ++d) {
        const std::int64_t at_a = s.kind == MatmulKind::kWeightGrad ? d * s.n + r : r * depth + d;
        const std::int64_t at_b = s.kind == MatmulKind::kForward ? c * s.k + d : d * s.k + c;
        sum += static_cast<double>(a[static_cast<std::size_t>(at_a)]) *
               static_cast<double>(b[static_cast<std::size_t>(at_b)]);
      }
      out[static_cast<std::size_t>(r * columns + c)] = sum;
    }
  }
  return out;
}

struct Operands {
  explicit Operands(const MatmulShape& s)
      : a(random_floats(s.m * (s.kind == MatmulKind::kForward ? s.k : s.n), 1)),
        b(random_floats(s.k * (s.kind == MatmulKind::kWeightGrad ? s.m : s.n), 2)),
        bias(random_floats(s.n, 3)),
        out(unwritten(s.kind == MatmulKind::kForward     ? s.m * s.n
                      : s.kind == MatmulKind::kInputGrad ? s.m * s.k
                                                         : s.n * s.k)) {}
  void run(Matmul& matmul) {
    Scratch scratch(matmul.scratch_bytes());
    matmul.run(a.data(), b.data(), bias.data(), out.data(), scratch.at());
  }
  Floats a, b, bias, out;
};

double tolerance(const MatmulShape& s) {
  return sum_tolerance(static_cast<double>(s.m + s.n + s.k), 4 * 4);  // normals stay below 4
}

constexpr MatmulKind kKinds[] = {MatmulKind::kForward, MatmulKind::kInputGrad,
                                 MatmulKind::kWeightGrad};

TEST(Matmul, EveryKindEqualsTheReferenceOnOddShapes) {
  for (const MatmulKind kind : kKinds) {
    for (const std::int64_t m : {1, 5, 67}) {
      const MatmulShape shape = {.kind = kind, .m = m, .n = 101, .k = 7};
      SCOPED_TRACE(m);
      Matmul matmul(shape);
      Operands operands(shape);
      operands.run(matmul);
      expect_near(operands.out, product_ref(shape, operands.a, operands.b), tolerance(shape),
                  "out");
    }
  }
}

TEST(Matmul, AccumulateAddsToTheOutput) {
  for (const MatmulKind kind : kKinds) {
    const MatmulShape shape = {.kind = kind, .m = 33, .n = 20, .k = 17, .accumulate = true};
    Matmul matmul(shape);
    Operands operands(shape);
    operands.out = random_floats(static_cast<std::int64_t>(operands.out.size()), 9);
    Doubles want = product_ref(shape, operands.a, operands.b);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += static_cast<double>(operands.out[i]);
    operands.run(matmul);
    expect_near(operands.out, want, tolerance(shape), "out");
  }
}

TEST(Matmul, BiasIsAddedToEveryRow) {
  const MatmulShape shape = {.m = 6, .n = 11, .k = 8, .bias = true};
  Matmul matmul(shape);
  Operands operands(shape);
  operands.run(matmul);
  Doubles want = product_ref(shape, operands.a, operands.b);
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] += static_cast<double>(operands.bias[i % 11]);
  }
  expect_near(operands.out, want, tolerance(shape), "out");
}

TEST(Matmul, RerunRepeatsBitsUnderAnyThreadCount) {
  for (const MatmulKind kind : kKinds) {
    for (const int num_threads : {1, 2}) {
      const MatmulShape shape = {.kind = kind, .m = 32, .n = 1000, .k = 33};
      Operands first(shape), again(shape);
      with_threads(num_threads, [&] {
        Matmul matmul(shape), another(shape);
        first.run(matmul);
        again.run(another);
      });
      expect_same_bits(first.out, again.out, "out");
      expect_near(first.out, product_ref(shape, first.a, first.b), tolerance(shape), "out");
    }
  }
}

TEST(Matmul, BatchEqualsEachSampleAlone) {
  const MatmulShape two_samples = {.m = 10, .n = 9, .k = 12};
  const MatmulShape one_sample = {.m = 5, .n = 9, .k = 12};
  Matmul both(two_samples), single(one_sample);
  Operands all(two_samples), part(one_sample);
  part.b = all.b;
  all.run(both);
  for (const std::ptrdiff_t first : {0, 5}) {
    part.a.assign(all.a.begin() + first * 12, all.a.begin() + (first + 5) * 12);
    part.run(single);
    expect_near(part.out,
                widened(Floats(all.out.begin() + first * 9, all.out.begin() + (first + 5) * 9)),
                tolerance(one_sample), "rows");
  }
}

TEST(Matmul, FourThreadsAtOnceWithOwnScratchAreCorrect) {
  warm_up_matmul();
  const MatmulShape shape = {.kind = MatmulKind::kWeightGrad, .m = 128, .n = 96, .k = 80};
  std::vector<Operands> results(4, Operands(shape));
  std::vector<std::thread> threads;
  for (Operands& operands : results) {
    threads.emplace_back([&operands, &shape] {
      omp_set_num_threads(1);
      Matmul matmul(shape);
      for (int repeat = 0; repeat < 20; ++repeat) operands.run(matmul);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Doubles want = product_ref(shape, results[0].a, results[0].b);
  for (const Operands& operands : results) {
    expect_near(operands.out, want, tolerance(shape), "out");
    expect_same_bits(operands.out, results[0].out, "out");
  }
}

TEST(Matmul, RefusesAnEmptySizeAndABiasOnAGradient) {
  EXPECT_THROW(Matmul({.m = 0, .n = 1, .k = 1}), UsageError);
  EXPECT_THROW(Matmul({.kind = MatmulKind::kInputGrad, .m = 1, .n = 1, .k = 1, .bias = true}),
               UsageError);
}

TEST(Matmul, ReportsLibraryAndInstructionSet) {
  EXPECT_EQ(matmul_library_version().substr(0, 7), "oneDNN ");
  EXPECT_FALSE(matmul_instruction_set().empty());
}

}  // namespace
}  // namespace trireme::kernels
