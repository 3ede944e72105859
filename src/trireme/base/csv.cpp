#include "trireme/base/csv.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : text_(text), name_(name) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  CsvTable read() {
    CsvTable table;
    while (at_ < text_.size()) {
      std::vector<std::string> cells = line();
      if (cells.size() == 1 && cells.front().empty()) continue;
      if (table.header.empty()) {
        table.header = std::move(cells);
        check_header(table.header);
      } else {
        table.rows.push_back(std::move(cells));
      }
    }
    if (table.header.empty()) {
      throw UsageError("[" + name_ +
                       "] has no line: the first one must name the columns; see the reference");
    }
    return table;
  }

 private:
  [[noreturn]] void refuse(const std::string& text) const {
    throw UsageError("[" + name_ + ":" + std::to_string(line_) + "] " + text);
  }

  std::vector<std::string> line() {
    ++line_;
    std::vector<std::string> cells;
    do {
      cells.push_back(cell());
    } while (take(','));
    take('\r');
    if (at_ < text_.size() && !take('\n')) {
      refuse("a quote must open or close a cell; double it inside of a quoted cell");
    }
    return cells;
  }

  std::string cell() {
    if (take('"')) return quoted_cell();
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string_view content = text_.substr(at_, end - at_);
    at_ = end;
    if (content.ends_with('\r') && (end == text_.size() || text_[end] == '\n')) {
      content.remove_suffix(1);
    }
    return std::string(content);
  }

  /// After the opening quote.
  std::string quoted_cell() {
    std::string content;
    const int opened = line_;
    while (at_ < text_.size()) {
      const char each = text_[at_++];
      if (each == '\n') ++line_;
      if (each != '"') {
        content += each;
      } else if (take('"')) {
        content += '"';
      } else {
        return content;
      }
    }
    line_ = opened;
    refuse("a quote is not closed; close it");
  }

  bool take(char expected) {
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  void check_header(const std::vector<std::string>& header) const {
    for (std::size_t i = 0; i < header.size(); ++i) {
      const bool is_twice =
          std::find(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i), header[i]) !=
          header.begin() + static_cast<std::ptrdiff_t>(i);
      if (is_twice) refuse("the column \"" + header[i] + "\" is named twice; rename one");
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 0;
};

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& name) {
  return CsvReader(text, name).read();
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char each : cell) {
      if (each == '"') line += '"';
      line += each;
    }
    line += '"';
  }
  return line + '\n';
}

}  // namespace trireme
