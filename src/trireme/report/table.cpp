#include "trireme/report/table.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/report/utf8.h"

namespace trireme {
namespace {

using Row = std::vector<std::string>;

bool looks_like_a_number(std::string_view cell) {
  return !cell.empty() && std::string_view("+-.0123456789").find(cell.front()) != cell.npos;
}

struct Column {
  std::size_t width = 0;
  bool is_flush_right = true;
};

std::vector<Column> columns_of(const Row& header, std::span<const Row> rows) {
  std::vector<Column> columns(header.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i] = {num_code_points(header[i]), !rows.empty()};
    for (const Row& row : rows) {
      columns[i].width = std::max(columns[i].width, num_code_points(row[i]));
      columns[i].is_flush_right = columns[i].is_flush_right && looks_like_a_number(row[i]);
    }
  }
  return columns;
}

std::string line_of(const Row& row, const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string blanks(columns[i].width - num_code_points(row[i]), ' ');
    line += i == 0 ? "" : "  ";
    line += columns[i].is_flush_right ? blanks + row[i] : row[i] + blanks;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::string text_table(const Row& header, std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (row.size() != header.size()) {
      throw UsageError(
          fmt::format("[table] a row has {} cells and the header {}: must be equal; "
                      "fill in the missing cells",
                      row.size(), header.size()));
    }
  }
  const std::vector<Column> columns = columns_of(header, rows);
  Row rule;
  for (const Column& column : columns) {
    rule.emplace_back(column.width, '-');
  }
  std::string table = line_of(header, columns) + line_of(rule, columns);
  for (const Row& row : rows) {
    table += line_of(row, columns);
  }
  return table;
}

std::string milliseconds_text(double seconds) {
  constexpr double kMilliseconds = 1e3, kLong = 1e3;
  const double ms = seconds * kMilliseconds;
  return ms >= kLong ? fmt::format("{:.0f}", ms) : fmt::format("{:.4g}", ms);
}

}  // namespace trireme
