// A picture of amounts that are made of several kinds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

/// One row: pieces of the picture's kinds, left to right.
struct Bar {
  std::string name;             ///< left of it
  std::vector<double> amounts;  ///< by kind, >= 0
  std::string note;             ///< in a column on the right
};

struct BarKind {
  std::string name;
  std::size_t colour = 0;  ///< index of fill_colour()
};

struct BarsPicture {
  std::string title;
  std::string unit;  ///< of the amounts, on the axis and in tooltips
  std::vector<BarKind> kinds = {};
  std::vector<Bar> bars = {};
  double limit = 0;             ///< a line across all bars; 0 = none
  std::string limit_name = {};  ///< of that line
};

/// A self-contained SVG file: a row for each bar on one axis that begins at 0. Kinds of which no
/// bar has anything are left out. The amount of a piece is written in it where it fits, and is
/// always in its tooltip.
[[nodiscard]] std::string bars_svg(const BarsPicture& picture);

}  // namespace trireme
