// What the kernel tests share: random inputs, scratch, comparison, thread counts. Test only.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <omp.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/philox.h"
#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr double kEps = std::numeric_limits<float>::epsilon();

[[nodiscard]] inline Floats random_floats(std::int64_t count, std::uint64_t seed,
                                          float scale = 1.0F) {
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * philox_normal(seed, i);
  return values;
}

[[nodiscard]] inline Doubles widened(const Floats& values) {
  return {values.begin(), values.end()};
}

[[nodiscard]] inline double largest_magnitude(const Doubles& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Floats that no kernel should leave unwritten.
[[nodiscard]] inline Floats unwritten(std::int64_t count) {
  return Floats(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
}

/// 64-byte aligned scratch, filled with NaN: kernels must not read what they did not write.
class Scratch {
 public:
  explicit Scratch(std::int64_t num_bytes)
      : storage_(static_cast<std::size_t>(num_bytes) + 64, std::byte{0xFF}) {}
  [[nodiscard]] void* at() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> storage_;
};

inline void expect_near(const Floats& got, const Doubles& want, double tolerance,
                        const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  std::size_t worst = 0;
  double worst_error = -1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(error <= worst_error)) {
      worst_error = error;
      worst = i;
    }
    if (std::isnan(error)) break;
  }
  EXPECT_LE(worst_error, tolerance) << name << '[' << worst << " of " << got.size() << "] is "
                                    << got[worst] << ", reference " << want[worst];
}

inline void expect_same_bits(const Floats& a, const Floats& b, const char* name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << name << '[' << i << " of " << a.size() << "]: " << a[i] << " and " << b[i];
  }
}

/// Error allowed to a sum of `num_terms` terms of at most `term`: rounding errors add up randomly.
[[nodiscard]] inline double sum_tolerance(double num_terms, double term) {
  return 4 * kEps * std::sqrt(num_terms) * term;
}

/// False under thread sanitizer, which reports libgomp's own hand-over between threads as races.
#ifdef __SANITIZE_THREAD__
constexpr bool kManyThreadsAllowed = false;
#else
constexpr bool kManyThreadsAllowed = true;
#endif

/// Runs `body` with `num_threads` OpenMP threads (one under thread sanitizer), then restores the
/// setting.
inline void with_threads(int num_threads, const std::function<void()>& body) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(kManyThreadsAllowed ? num_threads : 1);
  body();
  omp_set_num_threads(before);
}

/// Holds every test that names no thread count to one thread under thread sanitizer.
class ThreadLimit : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!kManyThreadsAllowed) omp_set_num_threads(1);
  }
};
inline ::testing::Environment* const kThreadLimit =
    ::testing::AddGlobalTestEnvironment(new ThreadLimit);  // googletest deletes it

/// Central difference of f along `direction` against the gradient's dot product with it, in fp64.
inline void expect_gradient(const std::function<double(const Doubles&)>& f, const Doubles& at,
                            const Doubles& gradient, std::uint64_t seed) {
  constexpr double kStep = 1e-5;
  Doubles plus = at, minus = at;
  double slope = 0, scale = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto direction = static_cast<double>(philox_normal(seed, i));
    plus[i] += kStep * direction;
    minus[i] -= kStep * direction;
    slope += gradient[i] * direction;
    scale += std::abs(gradient[i] * direction);
  }
  // Truncation kStep^2 and cancellation 1e-16 / kStep, both relative to the terms' size.
  EXPECT_NEAR((f(plus) - f(minus)) / (2 * kStep), slope, 1e-7 * (scale + 1));
}

/// Runs once per instruction set that this machine supports; kernels take isa().
class IsaTest : public ::testing::TestWithParam<const IsaKernels*> {
 protected:
  [[nodiscard]] static const IsaKernels& isa() { return *GetParam(); }
};

[[nodiscard]] inline std::string isa_test_name(
    const ::testing::TestParamInfo<const IsaKernels*>& param) {
  return std::string(isa_name(*param.param));
}

}  // namespace trireme::kernels

/// Instantiates `suite` (derived from IsaTest) for the supported instruction sets.
#define TRI_FOR_EACH_ISA(suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Isa, suite,                                                       \
                           ::testing::ValuesIn(::trireme::kernels::supported_isa_kernels()), \
                           ::trireme::kernels::isa_test_name)
