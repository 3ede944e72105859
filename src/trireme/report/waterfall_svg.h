// Pictures of what a step is made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// A self-contained SVG file: a row for each term with its bar where the one above ends, then their
/// sum. Terms of 0 are left out.
[[nodiscard]] std::string waterfall_svg(
    const std::string& title, const std::vector<std::pair<std::string, double>>& term_seconds);

}  // namespace trireme
