#include "trireme/report/bars_svg.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

BarsPicture two_layouts() {
  return {.title = "memory",
          .unit = "GiB",
          .kinds = {{"parameters", 0}, {"moments", 2}, {"activations <peak>", 7}},
          .bars = {{"1  dp2", {10, 0, 30}, "40 GiB"}, {"2  tp2", {5, 0, 0.01}, "5 GiB"}},
          .limit = 50,
          .limit_name = "the device has 50 GiB"};
}

double number_after(const std::string& svg, const std::string& key, std::size_t from) {
  return std::stod(svg.substr(svg.find(key, from) + key.size()));
}

TEST(BarsSvg, APieceBeginsWhereTheOneBeforeItEnds) {
  const std::string svg = bars_svg(two_layouts());
  const std::size_t first = svg.rfind("<rect", svg.find("<title>parameters: 10 GiB"));
  const std::size_t second =
      svg.rfind("<rect", svg.find("<title>activations &lt;peak&gt;: 30 GiB"));
  const double first_width = number_after(svg, " width=\"", first);
  EXPECT_NEAR(number_after(svg, " x=\"", first) + first_width, number_after(svg, " x=\"", second),
              0.02);
  EXPECT_NEAR(number_after(svg, " width=\"", second), 3 * first_width, 0.05);
}

TEST(BarsSvg, KindsOfNothingAreNotInTheLegend) {
  EXPECT_NE(bars_svg(two_layouts()).find(">parameters</text>"), std::string::npos);
  EXPECT_EQ(bars_svg(two_layouts()).find("moments"), std::string::npos);
}

TEST(BarsSvg, AnAmountIsWrittenWhereItFits) {
  EXPECT_NE(bars_svg(two_layouts()).find(">30</text>"), std::string::npos);
  EXPECT_EQ(bars_svg(two_layouts()).find(">0.01</text>"), std::string::npos);
}

TEST(BarsSvg, TheLimitIsALineAtItsAmount) {
  const std::string svg = bars_svg(two_layouts());
  const std::size_t first = svg.rfind("<rect", svg.find("<title>parameters: 10 GiB"));
  const double left = number_after(svg, " x=\"", first);
  const double ten = number_after(svg, " width=\"", first);
  EXPECT_NEAR(number_after(svg, "<line class=\"limit\" x1=\"", 0), left + 5 * ten, 0.1);
  EXPECT_NE(svg.find(">the device has 50 GiB</text>"), std::string::npos);
}

TEST(BarsSvg, WithoutALimitThereIsNoLine) {
  BarsPicture picture = two_layouts();
  picture.limit = 0;
  EXPECT_EQ(bars_svg(picture).find("class=\"limit\""), std::string::npos);
}

}  // namespace
}  // namespace trireme
