#include "trireme/report/html_report.h"

#include <vector>

#include <gtest/gtest.h>

#include "trireme/report/timeline_svg.h"

namespace trireme {
namespace {

std::string page() {
  const Timeline timeline{.title = "t",
                          .stream_names = {"compute"},
                          .events = {{.name = "F0", .category = "forward", .duration_seconds = 1}}};
  return html_report({.title = "a < b",
                      .subtitle = "pp=2",
                      .facts = {{"step", "1 s"}},
                      .sections = {{.heading = "Timeline",
                                    .text = "one & all",
                                    .svg = timeline_svg(std::vector{timeline}),
                                    .table = {.header = {"rank", "seconds", "at"},
                                              .rows = {{"0", "1.5", "F0"}, {"1", "2.5", "F0"}},
                                              .marked_row = 1},
                                    .plain = "x  <y>\nz"}}});
}

/// Every element that is opened is closed, innermost first. Elements without content end in "/>".
bool is_well_formed(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != html.npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (end == html.npos || tag.empty()) return false;
    if (tag.front() == '!' || tag.back() == '/') continue;
    const std::size_t begin = tag.front() == '/' ? 1 : 0;
    const std::string name = tag.substr(begin, tag.find(' ') - begin);
    if (tag.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(HtmlReport, IsWellFormed) {
  EXPECT_TRUE(is_well_formed(page())) << page();
}

TEST(HtmlReport, NamesNoOtherFile) {
  for (const char* const reference : {"http", "src=", "href=", "url(", "@import", "<script"})
    EXPECT_EQ(page().find(reference), std::string::npos) << reference;
}

TEST(HtmlReport, EscapesItsTexts) {
  EXPECT_NE(page().find("<h1>a &lt; b</h1>"), std::string::npos);
  EXPECT_NE(page().find("<p>one &amp; all</p>"), std::string::npos);
}

TEST(HtmlReport, HoldsThePicture) {
  EXPECT_NE(page().find("<svg width="), std::string::npos);
  EXPECT_NE(page().find(">F0 (forward)"), std::string::npos);
}

TEST(HtmlReport, NumbersAreFlushRight) {
  EXPECT_NE(page().find("<td class=\"right\">1.5</td><td>F0</td>"), std::string::npos);
}

TEST(HtmlReport, MarksOneRow) {
  EXPECT_NE(page().find("<tr class=\"marked\"><td class=\"right\">1</td>"), std::string::npos);
  EXPECT_EQ(page().find("<tr class=\"marked\"><td class=\"right\">0</td>"), std::string::npos);
}

TEST(HtmlReport, KeepsPlainLinesAsTheyStand) {
  EXPECT_NE(page().find("<pre>x  &lt;y&gt;\nz</pre>"), std::string::npos);
}

}  // namespace
}  // namespace trireme
