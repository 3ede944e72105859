#include "trireme/report/bars_svg.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "trireme/report/svg.h"

namespace trireme {
namespace {

// Lengths are in pixels.
constexpr double kLegendTop = 44.0;
constexpr double kRowHeight = 24.0;
constexpr double kRowGap = 6.0;
constexpr double kTextDown = 16.5;  // of a text in a row, from the row's top
constexpr double kColumnGap = 12.0;
constexpr double kAxisHeight = 46.0;

/// Three digits, never in powers of ten.
std::string amount_text(double amount) {
  return amount >= 100 ? fmt::format("{:.0f}", amount) : fmt::format("{:.3g}", amount);
}

/// Where a picture's things are.
struct Frame {
  double left = 0;
  double right = 0;
  double top = 0;
  double bottom = 0;
  double most = 0;  ///< amount at `right`

  Frame(const BarsPicture& picture, double rows_top) : top(rows_top) {
    double name_width = 0, note_width = 0;
    most = picture.limit;
    for (const Bar& bar : picture.bars) {
      name_width = std::max(name_width, text_width(bar.name));
      note_width = std::max(note_width, text_width(bar.note));
      most = std::max(most, std::accumulate(bar.amounts.begin(), bar.amounts.end(), 0.0));
    }
    constexpr double kHeadroom = 1.02;
    most = most > 0 ? kHeadroom * most : 1.0;
    left = kPictureMargin + name_width + kColumnGap;
    right = kPictureWidth - kPictureMargin - note_width - kColumnGap;
    bottom = top + static_cast<double>(picture.bars.size()) * (kRowHeight + kRowGap);
  }
  [[nodiscard]] double x(double amount) const { return left + amount / most * (right - left); }
};

std::string draw_bar(const BarsPicture& picture, const Bar& bar, const Frame& frame, double y) {
  std::string body = svg_text("end", frame.left - kColumnGap, y + kTextDown, bar.name) +
                     svg_text("", frame.right + kColumnGap, y + kTextDown, bar.note);
  double done = 0;
  for (std::size_t i = 0; i < bar.amounts.size(); ++i) {
    const double amount = bar.amounts[i];
    if (amount <= 0) continue;
    const BarKind& kind = picture.kinds.at(i);
    const double x = frame.x(done), width = frame.x(done + amount) - x;
    const std::string text = amount_text(amount);
    body += svg_bar(x, y, width, kRowHeight, fill_colour(kind.colour),
                    fmt::format("{}: {} {}", kind.name, text, picture.unit));
    constexpr double kPadding = 6.0;
    if (text_width(text) + kPadding <= width)
      body += svg_text("mid", x + width / 2, y + kTextDown, text);
    done += amount;
  }
  return body;
}

std::string draw_axis(const BarsPicture& picture, const Frame& frame) {
  const double step = tick_step(frame.most, 10.0);
  std::string axis;
  for (const double value : tick_values(step, frame.most)) {
    const double x = frame.x(value);
    axis += svg_line("grid", x, frame.top, x, frame.bottom) +
            svg_text("quiet mid", x, frame.bottom + 16.0, tick_text(value, step));
  }
  return axis +
         svg_text("quiet mid", (frame.left + frame.right) / 2, frame.bottom + 34.0, picture.unit);
}

std::string draw_limit(const BarsPicture& picture, const Frame& frame) {
  if (picture.limit <= 0) return "";
  const double x = frame.x(picture.limit);
  return svg_line("limit", x, frame.top - 10.0, x, frame.bottom) +
         svg_text("quiet end", x, frame.top - 16.0, picture.limit_name);
}

Legend legend_of(const BarsPicture& picture) {
  std::vector<LegendItem> items;
  for (std::size_t i = 0; i < picture.kinds.size(); ++i) {
    const bool is_used = std::any_of(picture.bars.begin(), picture.bars.end(),
                                     [&](const Bar& bar) { return bar.amounts.at(i) > 0; });
    if (is_used) items.push_back({picture.kinds[i].name, fill_colour(picture.kinds[i].colour)});
  }
  return svg_legend(items, kLegendTop);
}

}  // namespace

std::string bars_svg(const BarsPicture& picture) {
  constexpr double kLimitHeight = 24.0;  // for the name of the limit
  const Legend legend = legend_of(picture);
  const Frame frame(picture, kLegendTop + legend.height + (picture.limit > 0 ? kLimitHeight : 4.0));
  std::string body = svg_text("title", kPictureMargin, 28.0, picture.title) + legend.body +
                     draw_axis(picture, frame);
  double y = frame.top;
  for (const Bar& bar : picture.bars) {
    body += draw_bar(picture, bar, frame, y);
    y += kRowHeight + kRowGap;
  }
  return svg_file(frame.bottom + kAxisHeight, body + draw_limit(picture, frame));
}

}  // namespace trireme
