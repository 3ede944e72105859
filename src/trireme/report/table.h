// Tables of plain text.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme {

/// A header, a rule, and the rows, in aligned columns two blanks apart. A column is flush right if
/// each of its cells starts like a number ("-", a sign or a digit), else flush left. Widths count
/// code points of UTF-8. Each line ends with a line break and has no trailing blanks. UsageError if
/// a row has not as many cells as the header.
[[nodiscard]] std::string text_table(const std::vector<std::string>& header,
                                     std::span<const std::vector<std::string>> rows);

/// Four digits, or all before the point, never an exponent: "0.2592", "70.41", "23087".
[[nodiscard]] std::string milliseconds_text(double seconds);

}  // namespace trireme
