#include "trireme/report/waterfall_svg.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "trireme/report/svg.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

// Lengths are in pixels.
constexpr double kMargin = 16.0;

}  // namespace

std::string waterfall_svg(const std::string& title,
                          const std::vector<std::pair<std::string, double>>& term_seconds) {
  constexpr double kRowHeight = 24.0, kRowGap = 6.0, kFirstRow = 46.0, kValueWidth = 170.0;
  double total = 0;
  double name_width = text_width("step");
  for (const auto& [name, seconds] : term_seconds) {
    total += seconds;
    name_width = std::max(name_width, text_width(name));
  }
  const double left = kMargin + name_width + 10.0;
  const double per_second = (kTimeRight - kValueWidth - left) / total;
  std::string body = svg_text("title", kMargin, 28.0, title);
  double begin = 0, y = kFirstRow;
  const auto add_row = [&](const std::string& name, double from, double seconds,
                           std::string_view colour) {
    const double x = left + from * per_second, width = seconds * per_second;
    body += svg_text("end", left - 10.0, y + 16.5, name) +
            fmt::format(
                "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
                "rx=\"2\" fill=\"{}\"/>\n",
                x, y, std::max(width, 1.0), kRowHeight, colour) +
            svg_text("", x + width + 8.0, y + 16.5,
                     fmt::format("{} ms, {:.1f} %", milliseconds_text(seconds),
                                 100.0 * seconds / total));
    y += kRowHeight + kRowGap;
  };
  for (std::size_t i = 0; i < term_seconds.size(); ++i) {
    const auto& [name, seconds] = term_seconds[i];
    if (seconds <= 0) continue;
    add_row(name, begin, seconds, fill_colour(i));
    begin += seconds;
    const double x = left + begin * per_second;
    body += svg_line("grid", x, y - kRowGap, x, y);
  }
  add_row("step", 0.0, total, "#52606d");
  return svg_file(y + kMargin, body);
}

}  // namespace trireme
