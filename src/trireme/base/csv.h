// Comma-separated tables (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct CsvTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< may be shorter or longer than the header

  bool operator==(const CsvTable&) const = default;
};

/// Cells may be quoted, and then hold commas, line breaks and doubled quotes; lines end with LF or
/// CRLF; a byte order mark and empty lines are skipped. Throws UsageError naming `name` and the
/// line for a table without a header, a quote that is not closed or stands in the middle of a cell,
/// and a column name that occurs twice.
[[nodiscard]] CsvTable parse_csv(std::string_view text, const std::string& name);

/// One line with its end; cells are quoted where they must be.
[[nodiscard]] std::string csv_line(const std::vector<std::string>& cells);

}  // namespace trireme
