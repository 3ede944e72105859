// Pictures of what a step is made of, and of what makes another one longer.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// A self-contained SVG file: a row for each term with its bar where the one above ends, then their
/// sum. Terms of 0 are left out.
[[nodiscard]] std::string waterfall_svg(
    const std::string& title, const std::vector<std::pair<std::string, double>>& term_seconds);

struct StepChange {
  std::string title;
  std::string from_name;
  std::string to_name;
  double from_seconds = 0;                                   ///< > 0
  std::vector<std::pair<std::string, double>> changes = {};  ///< by term, in seconds
};

/// A self-contained SVG file: the step that is changed, a row for each term that changes, from
/// where the row above ends, and the step that comes out. The axis begins shortly before the
/// smallest of these values, and says so.
[[nodiscard]] std::string change_svg(const StepChange& change);

}  // namespace trireme
