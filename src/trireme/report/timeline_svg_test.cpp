#include "trireme/report/timeline_svg.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::size_t num_occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

/// x and width of the event whose tooltip starts with `name`.
std::pair<double, double> place_of(const std::string& svg, const std::string& name) {
  const std::size_t title = svg.find("<title>" + name + " (");
  const std::size_t rect = svg.rfind("<rect", title);
  const auto number = [&](const std::string& key) {
    return std::stod(svg.substr(svg.find(key, rect) + key.size()));
  };
  return {number(" x=\""), number(" width=\"")};
}

/// Forward and backward of `num_layers` layers on two ranks, then or meanwhile a reduction each.
Timeline dp_step(std::string title, int num_layers, double reduce_start_seconds) {
  Timeline timeline{.title = std::move(title), .stream_names = {"compute", "communication"}};
  for (int rank = 0; rank < 2; ++rank) {
    for (int layer = 0; layer < num_layers; ++layer) {
      timeline.events.push_back({.rank = rank,
                                 .name = "F" + std::to_string(layer),
                                 .category = "forward",
                                 .start_seconds = 1e-3 * layer,
                                 .duration_seconds = 1e-3});
    }
    timeline.events.push_back({.rank = rank,
                               .stream = 1,
                               .name = "reduce",
                               .category = "communication",
                               .start_seconds = reduce_start_seconds,
                               .duration_seconds = 2e-3});
  }
  return timeline;
}

TEST(TimelineSvg, HasALanePerRankAndStream) {
  const std::string svg = timeline_svg(std::vector{dp_step("naive", 3, 3e-3)});
  EXPECT_EQ(num_occurrences(svg, "class=\"lane\""), 4U);
  EXPECT_EQ(num_occurrences(svg, "class=\"event\""), 8U);
  EXPECT_EQ(num_occurrences(svg, ">rank 1<"), 1U);
  EXPECT_EQ(num_occurrences(svg, ">communication<"), 3U);  // two lanes and the legend
}

TEST(TimelineSvg, PlacesEventsInProportionToTheirTimes) {
  const std::string svg = timeline_svg(std::vector{dp_step("naive", 3, 3e-3)});
  const auto [first_x, first_width] = place_of(svg, "F0");
  const auto [reduce_x, reduce_width] = place_of(svg, "reduce");
  constexpr double kRounding = 0.03;  // coordinates have two decimals
  EXPECT_NEAR(reduce_x - first_x, 3.0 * first_width, kRounding);
  EXPECT_NEAR(reduce_width, 2.0 * first_width, kRounding);
}

TEST(TimelineSvg, StackedTimelinesShareOneTimeAxis) {
  const Timeline naive = dp_step("naive", 3, 3e-3);
  Timeline overlapped = dp_step("overlapped", 3, 1e-3);
  for (TraceEvent& event : overlapped.events) {
    event.name += "'";
  }
  const std::string svg = timeline_svg(std::vector{naive, overlapped});
  EXPECT_EQ(place_of(svg, "F1"), place_of(svg, "F1'"));
  EXPECT_NE(svg.find(">naive: 5 ms<"), svg.npos);
  EXPECT_NE(svg.find(">overlapped: 3 ms<"), svg.npos);
}

TEST(TimelineSvg, NameIsDrawnOnlyWhereItFits) {
  Timeline timeline;
  timeline.events = {
      {.name = "wide", .category = "c", .duration_seconds = 1.0},
      {.name = "narrow", .category = "c", .start_seconds = 1.0, .duration_seconds = 0.001}};
  const std::string svg = timeline_svg(std::vector{timeline});
  EXPECT_EQ(num_occurrences(svg, ">wide</text>"), 1U);
  EXPECT_EQ(num_occurrences(svg, ">narrow</text>"), 0U);
  EXPECT_EQ(num_occurrences(svg, "<title>narrow (c)"), 1U);
}

TEST(TimelineSvg, ListedCategoriesKeepTheirColoursWhereOthersAreMissing) {
  const Timeline backward_alone{.events = {{.name = "B", .category = "backward"}}};
  const Timeline both{
      .events = {{.name = "F", .category = "forward"}, {.name = "B", .category = "backward"}}};
  const std::vector<std::string> order = {"forward", "backward"};
  const auto fill_of_backward = [&](const Timeline& timeline) {
    const std::string svg = timeline_svg(std::vector{timeline}, order);
    const std::size_t fill = svg.rfind("fill=\"", svg.find("<title>B ("));
    return svg.substr(fill, std::string("fill=\"#000000").size());
  };
  EXPECT_EQ(fill_of_backward(backward_alone), fill_of_backward(both));
}

TEST(TimelineSvg, NamesCannotBreakTheMarkup) {
  Timeline timeline;
  timeline.title = "a < b & c\x01";
  timeline.events = {{.name = "</svg>", .category = "\"q\"", .duration_seconds = 1.0}};
  const std::string svg = timeline_svg(std::vector{timeline});
  EXPECT_EQ(num_occurrences(svg, "</svg>"), 1U);
  EXPECT_NE(svg.find("a &lt; b &amp; c\uFFFD"), svg.npos);
}

TEST(TimelineSvg, ALongTitleKeepsItsTimeInThePicture) {
  const Timeline timeline{.title = std::string(500, 'x')};
  const std::string svg = timeline_svg(std::vector{timeline});
  EXPECT_NE(svg.find("xxx...: 0 ms<"), svg.npos);
  EXPECT_EQ(svg.find(std::string(150, 'x')), svg.npos);
}

TEST(TimelineSvg, PictureWithoutEventsIsStillAPicture) {
  EXPECT_TRUE(timeline_svg({}).starts_with("<svg "));
  EXPECT_NE(timeline_svg(std::vector{Timeline{.title = "idle"}}).find(">idle: 0 ms<"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
