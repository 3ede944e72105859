#include "trireme/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "trireme/report/utf8.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 10> kFills = {"#8ab8e6", "#f6b26b", "#7fc8a9", "#d5a6e0",
                                                     "#f2e27a", "#e99a9a", "#a7b4c2", "#8fd8de",
                                                     "#c9b18f", "#bcd977"};

constexpr std::string_view kStyle =
    "text{font:12px 'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif;fill:#1f2933}"
    ".title{font-size:14px;font-weight:bold}.quiet{fill:#52606d}.end{text-anchor:end}"
    ".mid{text-anchor:middle}.mark{font-weight:bold;fill:#b3261e;paint-order:stroke;stroke:#ffffff;"
    "stroke-width:3px}.limit{stroke:#b3261e;stroke-dasharray:6 "
    "4}.lane{fill:#f1f4f7}.grid{stroke:#d9e0e7}"
    ".event{stroke:#ffffff;stroke-width:0.5}.tick{stroke:#52606d}.makespan{stroke:#52606d;stroke-"
    "dasharray:4 3}";

/// Advance of a character in DejaVu Sans at 12 px, rounded up by class; other common sans-serif
/// fonts are narrower.
double letter_width(char c) {
  constexpr double kWide = 12.0, kCapital = 9.4, kUsual = 7.7;
  const bool is_wide = std::string_view("mwMW@%").find(c) != std::string_view::npos;
  return is_wide ? kWide : c >= 'A' && c <= 'Z' ? kCapital : kUsual;
}

}  // namespace

std::string_view fill_colour(std::size_t index) {
  return kFills.at(index % kFills.size());
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t num_bytes = utf8_sequence_bytes(text);
    const char c = text.front();
    // XML 1.0 has no control characters, not even escaped ones.
    const bool is_no_character = num_bytes == 0 || (num_bytes == 1 && (c & 0x60) == 0 && c != '\n');
    escaped += is_no_character ? "\uFFFD"
               : c == '&'      ? "&amp;"
               : c == '<'      ? "&lt;"
               : c == '>'      ? "&gt;"
                               : std::string(text.substr(0, num_bytes));
    text.remove_prefix(std::max<std::size_t>(num_bytes, 1));
  }
  return escaped;
}

double text_width(std::string_view text) {
  double width = 0.0;
  for (const char c : text) {
    width += letter_width(c);
  }
  return width;
}

std::string fitting_text(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  const std::string_view rest = "...";
  double used = text_width(rest);
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t num_bytes = std::max<std::size_t>(utf8_sequence_bytes(text.substr(end)), 1);
    used += text_width(text.substr(end, num_bytes));
    if (used > width) break;
    end += num_bytes;
  }
  return std::string(text.substr(0, end)) + std::string(rest);
}

double tick_step(double length, double num_ticks) {
  const double rough = length / num_ticks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      return factor * power;
    }
  }
  return 10.0 * power;
}

std::vector<double> tick_values(double step, double end) {
  constexpr double kRounding = 1e-9;
  std::vector<double> values;
  for (int i = 0; i * step <= end * (1.0 + kRounding); ++i) values.push_back(i * step);
  return values;
}

std::string tick_text(double value, double step) {
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

std::string svg_text(std::string_view style, double x, double y, std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n", style, x, y,
                     xml_text(text));
}

std::string svg_line(std::string_view style, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\"/>\n", style, x1,
      y1, x2, y2);
}

Legend svg_legend(std::span<const LegendItem> items, double y) {
  constexpr double kSwatch = 14.0, kTextLeft = 20.0, kGap = 16.0, kRowHeight = 26.0;
  if (items.empty()) return {};
  Legend legend{.body = {}, .height = kRowHeight};
  double x = kPictureMargin;
  for (const LegendItem& item : items) {
    const double width = kTextLeft + text_width(item.name) + kGap;
    if (x > kPictureMargin && x + width > kPictureWidth - kPictureMargin) {
      x = kPictureMargin;
      legend.height += kRowHeight;
    }
    const double row_y = y + legend.height - kRowHeight;
    legend.body += svg_bar(x, row_y, kSwatch, kSwatch, item.colour) +
                   svg_text("", x + kTextLeft, row_y + 11.5, item.name);
    x += width;
  }
  return legend;
}

std::string svg_bar(double x, double y, double width, double height, std::string_view colour,
                    std::string_view tooltip) {
  std::string bar =
      fmt::format(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" rx="2" fill="{}")",
                  x, y, width, height, colour);
  return bar + (tooltip.empty() ? std::string("/>\n")
                                : fmt::format("><title>{}</title></rect>\n", xml_text(tooltip)));
}

std::string svg_file(double height, std::string_view body) {
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
                     R"(viewBox="0 0 {0:.0f} {1:.0f}"><style>{2}</style>)"
                     R"(<rect width="100%" height="100%" fill="#ffffff"/>{3}</svg>)"
                     "\n",
                     kPictureWidth, std::ceil(height), kStyle, body);
}

}  // namespace trireme
