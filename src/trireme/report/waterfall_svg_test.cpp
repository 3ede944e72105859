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

StepChange slower_by_traffic() {
  return {.title = "t",
          .from_name = "best",
          .to_name = "runner-up",
          .from_seconds = 6.0,
          .changes = {{"compute", -0.01}, {"bubble", 0.0}, {"exposed tp", 0.03}}};
}

TEST(ChangeSvg, EndsAtTheSumOfTheChanges) {
  EXPECT_NE(change_svg(slower_by_traffic()).find(">6.02 s, +0.3 %<"), std::string::npos);
}

TEST(ChangeSvg, NamesChangesWithTheirSigns) {
  const std::string svg = change_svg(slower_by_traffic());
  EXPECT_NE(svg.find(">-10 ms<"), std::string::npos);
  EXPECT_NE(svg.find(">+30 ms<"), std::string::npos);
  EXPECT_EQ(svg.find("bubble"), std::string::npos);
}

TEST(ChangeSvg, SaysThatItsAxisIsCut) {
  EXPECT_NE(change_svg(slower_by_traffic()).find("the axis does not begin at 0"),
            std::string::npos);
}

TEST(ChangeSvg, AnAxisThatBeginsAtNothingIsNotCut) {
  StepChange change = slower_by_traffic();
  change.changes.front().second = -5.9;
  EXPECT_EQ(change_svg(change).find("does not begin"), std::string::npos);
}

TEST(ChangeSvg, EqualStepsAreStillAPicture) {
  StepChange change = slower_by_traffic();
  change.changes.clear();
  EXPECT_NE(change_svg(change).find(">6 s, +0.0 %<"), std::string::npos);
}

}  // namespace
}  // namespace trireme
