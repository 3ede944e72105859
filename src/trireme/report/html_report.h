// A page that opens without a network.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct HtmlTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the header
  std::optional<std::size_t> marked_row = {};
};

/// A heading with what follows it; empty parts are left out.
struct HtmlSection {
  std::string heading = {};
  std::string text = {};  ///< a paragraph
  std::string svg = {};   ///< a whole SVG file, as timeline_svg() and others make
  HtmlTable table = {};
  std::string plain = {};  ///< lines in a font of one width
};

struct HtmlReport {
  std::string title = {};
  std::string subtitle = {};
  std::vector<std::pair<std::string, std::string>> facts = {};  ///< name and value, shown large
  std::vector<HtmlSection> sections = {};
};

/// One HTML file that names no other: pictures and style are part of it, and it has no script. A
/// column of a table is flush right if each of its cells starts like a number or is empty.
[[nodiscard]] std::string html_report(const HtmlReport& report);

}  // namespace trireme
