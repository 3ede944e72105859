#include "trireme/kernels/cpu/bias.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/philox.h"

namespace trireme::kernels {
namespace {

class BiasGradient : public testing::TestWithParam<BiasShape> {};

TEST_P(BiasGradient, IsTheSumOverTokens) {
  const BiasShape shape = GetParam();
  std::vector<float> dy(static_cast<std::size_t>(shape.num_tokens * shape.width));
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = philox_normal(1, i);
  std::vector<float> written(static_cast<std::size_t>(shape.width), 7.0F), added = written;
  bias_gradient(shape, dy.data(), written.data(), false);
  bias_gradient(shape, dy.data(), added.data(), true);
  for (std::int64_t c = 0; c < shape.width; ++c) {
    double sum = 0, magnitude = 0;
    for (std::int64_t n = 0; n < shape.num_tokens; ++n) {
      const auto value = static_cast<double>(dy[static_cast<std::size_t>(n * shape.width + c)]);
      sum += value;
      magnitude += std::abs(value);
    }
    const double bound =
        4 * static_cast<double>(std::numeric_limits<float>::epsilon()) * (magnitude + 7);
    EXPECT_NEAR(static_cast<double>(written[static_cast<std::size_t>(c)]), sum, bound)
        << "column " << c;
    EXPECT_NEAR(static_cast<double>(added[static_cast<std::size_t>(c)]), sum + 7, bound)
        << "column " << c;
  }
}

TEST_P(BiasGradient, IsOfABiasAddedToEachToken) {
  const BiasShape shape = GetParam();
  std::vector<float> bias(static_cast<std::size_t>(shape.width));
  std::vector<float> y(static_cast<std::size_t>(shape.num_tokens * shape.width));
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = philox_normal(2, i);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = philox_normal(3, i);
  const std::vector<float> before = y;
  add_bias(shape, bias.data(), y.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], before[i] + bias[i % bias.size()]) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BiasGradient,
                         testing::Values(BiasShape{1, 1}, BiasShape{5, 3}, BiasShape{64, 256},
                                         BiasShape{129, 257}));

}  // namespace
}  // namespace trireme::kernels
