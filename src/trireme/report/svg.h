// What all pictures share: colours, text and axes. Private to the layer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Pixels; of every picture, so that they line up on a page.
inline constexpr double kPictureWidth = 1080.0;
inline constexpr double kPictureMargin = 16.0;
/// Of time 0 and of the last moment, where the labels of lanes need no more room.
inline constexpr double kTimeLeft = 200.0;
inline constexpr double kTimeRight = kPictureWidth - 32.0;

/// Light fills on which dark text can be read, told apart also with red-green blindness; they start
/// over after the last one.
[[nodiscard]] std::string_view fill_colour(std::size_t index);

/// Escaped for XML and HTML; what neither may hold becomes U+FFFD; line breaks stay.
[[nodiscard]] std::string xml_text(std::string_view text);

/// Pixels of a text at 12 px, rounded up.
[[nodiscard]] double text_width(std::string_view text);

/// As much of a text as fits in `width` pixels at 12 px; "..." stands for the rest.
[[nodiscard]] std::string fitting_text(std::string_view text, double width);

/// 1, 2 or 5 times a power of ten, so that about `num_ticks` of them make up `length`.
[[nodiscard]] double tick_step(double length, double num_ticks);

/// Multiples of `step` from 0 to `end`.
[[nodiscard]] std::vector<double> tick_values(double step, double end);

/// With as many decimals as the step of the ticks has.
[[nodiscard]] std::string tick_text(double value, double step);

/// A text of a class of the style.
[[nodiscard]] std::string svg_text(std::string_view style, double x, double y,
                                   std::string_view text);

[[nodiscard]] std::string svg_line(std::string_view style, double x1, double y1, double x2,
                                   double y2);

struct LegendItem {
  std::string name;
  std::string_view colour;
};
struct Legend {
  std::string body;
  double height = 0;  ///< of all its rows, with the gap below; 0 without items
};
/// Names beside their colours, from `y` downwards, in as many rows as the width needs.
[[nodiscard]] Legend svg_legend(std::span<const LegendItem> items, double y);

/// A filled rectangle; with a tooltip if there is one.
[[nodiscard]] std::string svg_bar(double x, double y, double width, double height,
                                  std::string_view colour, std::string_view tooltip = {});

/// A whole SVG file of the pictures' width.
[[nodiscard]] std::string svg_file(double height, std::string_view body);

}  // namespace trireme
