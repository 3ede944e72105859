#include "trireme/report/waterfall_svg.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(WaterfallSvg, ATermBeginsWhereTheOneAboveEnds) {
  const std::string svg = waterfall_svg("", {{"compute", 3.0}, {"bubble", 1.0}});
  const auto number = [&](std::size_t rect, const std::string& key) {
    return std::stod(svg.substr(svg.find(key, rect) + key.size()));
  };
  const std::size_t compute = svg.find("<rect x="), bubble = svg.find("<rect x=", compute + 1);
  EXPECT_NEAR(number(compute, " x=\"") + number(compute, " width=\""), number(bubble, " x=\""),
              0.02);
  EXPECT_NEAR(number(compute, " width=\"") / number(bubble, " width=\""), 3.0, 0.01);
}

TEST(WaterfallSvg, LeavesTermsOfNothingOut) {
  EXPECT_EQ(waterfall_svg("", {{"compute", 3.0}, {"bubble", 0.0}}).find("bubble"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
