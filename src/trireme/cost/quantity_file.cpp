#include "trireme/cost/quantity_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <toml++/toml.h>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 4> kEvidenceNames = {"datasheet", "published", "measured",
                                                            "fitted"};

/// One file while it is read.
class Reader {
 public:
  Reader(std::string name, const QuantityRules& rules) : rules_(rules) {
    file_.name = std::move(name);
  }

  QuantityFile read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const toml::table* const section = node.as_table();
      if (section == nullptr || is_entry(*section)) {
        add(std::string(key.str()), node);
        continue;
      }
      for (const auto& [name, entry] : *section) {
        add(fmt::format("{}.{}", key.str(), name.str()), entry);
      }
    }
    check_complete();
    return std::move(file_);
  }

 private:
  static bool is_entry(const toml::table& table) {
    return table.contains("value") || table.contains("rows");
  }

  [[noreturn]] void refuse(const toml::node& node, const std::string& text) const {
    const auto& begin = node.source().begin;
    throw UsageError(fmt::format("[{}:{}:{}] {}", file_.name, begin.line, begin.column, text));
  }

  template <typename Rule>
  static const Rule* find(const std::vector<Rule>& rules, std::string_view key) {
    const auto found =
        std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.key == key; });
    return found == rules.end() ? nullptr : &*found;
  }

  void add(const std::string& key, const toml::node& node) {
    if (const TextRule* const text = find(rules_.texts, key)) return add_text(*text, node);
    if (const QuantityRule* const quantity = find(rules_.quantities, key)) {
      return add_quantity(*quantity, node);
    }
    if (const TableRule* const table = find(rules_.tables, key)) return add_table(*table, node);
    std::vector<std::string_view> known;
    for (const TextRule& rule : rules_.texts) known.push_back(rule.key);
    for (const QuantityRule& rule : rules_.quantities) known.push_back(rule.key);
    for (const TableRule& rule : rules_.tables) known.push_back(rule.key);
    refuse(node, fmt::format("{}: no such key in a {}; did you mean {}?", key, rules_.what,
                             nearest_name(key, known)));
  }

  void add_text(const TextRule& rule, const toml::node& node) {
    const auto text = node.value_exact<std::string>();
    if (!text || text->empty()) {
      refuse(node, fmt::format("{}: must be a text that is not empty", rule.key));
    }
    if (!rule.words.empty() &&
        std::find(rule.words.begin(), rule.words.end(), *text) == rule.words.end()) {
      refuse(node, fmt::format("{} = \"{}\": must be one of {}", rule.key, *text,
                               fmt::join(rule.words, ", ")));
    }
    file_.texts.emplace(rule.key, *text);
  }

  const toml::table& entry(std::string_view key, const toml::node& node,
                           const std::set<std::string_view>& fields) const {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      refuse(node, fmt::format("{}: must be a table with {}", key, fmt::join(fields, ", ")));
    }
    for (const auto& [name, value] : *table) {
      if (!fields.contains(name.str())) {
        refuse(value, fmt::format("{}: unknown field {}; fields are {}", key, name.str(),
                                  fmt::join(fields, ", ")));
      }
    }
    return *table;
  }

  std::string text_field(std::string_view key, const toml::table& table,
                         std::string_view field) const {
    const auto text = table[field].value_exact<std::string>();
    if (!text || text->empty()) {
      refuse(table, fmt::format("{}: needs {} = \"...\": each number says where it comes from", key,
                                field));
    }
    return *text;
  }

  Evidence evidence(std::string_view key, const toml::table& table) const {
    const std::string name = text_field(key, table, "kind");
    const auto found = std::find(kEvidenceNames.begin(), kEvidenceNames.end(), name);
    if (found == kEvidenceNames.end()) {
      refuse(table, fmt::format("{}: kind = \"{}\": must be one of {}", key, name,
                                fmt::join(kEvidenceNames, ", ")));
    }
    return static_cast<Evidence>(found - kEvidenceNames.begin());
  }

  double number(std::string_view key, const toml::node* node, const toml::table& table) const {
    if (node != nullptr) {
      if (const auto integer = node->value_exact<std::int64_t>())
        return static_cast<double>(*integer);
      if (const auto real = node->value_exact<double>(); real && std::isfinite(*real)) return *real;
    }
    refuse(node == nullptr ? table : *node, fmt::format("{}: must be a finite number", key));
  }

  void add_quantity(const QuantityRule& rule, const toml::node& node) {
    const toml::table& table = entry(rule.key, node, {"value", "unit", "kind", "source"});
    const double value = number(rule.key, table.get("value"), table);
    if (value < rule.min || value > rule.max) {
      refuse(node, fmt::format("{} = {}: must lie between {} and {}", rule.key, value, rule.min,
                               rule.max));
    }
    const std::string unit = text_field(rule.key, table, "unit");
    if (unit != rule.unit) {
      refuse(node, fmt::format("{}: unit = \"{}\": must be \"{}\"; convert the value", rule.key,
                               unit, rule.unit));
    }
    file_.quantities.emplace(rule.key, Quantity{.value = value,
                                                .unit = unit,
                                                .kind = evidence(rule.key, table),
                                                .source = text_field(rule.key, table, "source")});
  }

  void add_table(const TableRule& rule, const toml::node& node) {
    const toml::table& table = entry(rule.key, node, {"columns", "rows", "kind", "source"});
    QuantityTable result{.columns = {rule.columns.begin(), rule.columns.end()},
                         .rows = {},
                         .kind = evidence(rule.key, table),
                         .source = text_field(rule.key, table, "source")};
    const toml::array* const columns = table["columns"].as_array();
    const bool are_columns_right =
        columns != nullptr && columns->size() == rule.columns.size() &&
        std::equal(rule.columns.begin(), rule.columns.end(), columns->begin(),
                   [](std::string_view name, const toml::node& each) {
                     return each.value_exact<std::string>() == std::string(name);
                   });
    if (!are_columns_right) {
      refuse(node, fmt::format("{}: columns must be [\"{}\"]", rule.key,
                               fmt::join(rule.columns, "\", \"")));
    }
    if (const toml::array* const rows = table["rows"].as_array()) {
      for (const toml::node& row : *rows) result.rows.push_back(row_of(rule, row, table));
    }
    if (result.rows.size() < rule.min_rows) {
      refuse(node, fmt::format("{}: has {} rows: needs at least {}", rule.key, result.rows.size(),
                               rule.min_rows));
    }
    file_.tables.emplace(rule.key, std::move(result));
  }

  std::vector<double> row_of(const TableRule& rule, const toml::node& row,
                             const toml::table& table) const {
    const toml::array* const cells = row.as_array();
    if (cells == nullptr || cells->size() != rule.columns.size()) {
      refuse(row, fmt::format("{}: a row must have {} numbers: {}", rule.key, rule.columns.size(),
                              fmt::join(rule.columns, ", ")));
    }
    std::vector<double> values;
    for (const toml::node& cell : *cells) {
      values.push_back(number(rule.key, &cell, table));
      if (values.back() < 0) {
        refuse(cell, fmt::format("{} has {}: must not be negative", rule.key, values.back()));
      }
    }
    return values;
  }

  void check_complete() const {
    for (const TextRule& rule : rules_.texts) {
      if (!rule.is_optional && !file_.texts.contains(rule.key)) refuse_incomplete(rule.key);
    }
    for (const QuantityRule& rule : rules_.quantities) {
      if (!rule.is_optional && !file_.quantities.contains(rule.key)) refuse_incomplete(rule.key);
    }
  }

  [[noreturn]] void refuse_incomplete(std::string_view key) const {
    throw UsageError(
        fmt::format("[{}] {} is missing: a {} must have it; add it", file_.name, key, rules_.what));
  }

  const QuantityRules& rules_;
  QuantityFile file_;
};

/// A text as TOML.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') result += '\\';
    result += each;
  }
  return result + "\"";
}

/// Numbers that read back to the same number, large ones as 9.89e+14.
std::string number_text(double value) {
  return std::abs(value) < 1e6                    ? fmt::format("{}", value)
         : fmt::format("{:e}", value).size() < 12 ? fmt::format("{:e}", value)
                                                  : fmt::format("{}", value);
}

std::string entry_text(const Quantity& quantity) {
  return fmt::format("{{ value = {}, unit = {}, kind = {}, source = {} }}",
                     number_text(quantity.value), in_quotes(quantity.unit),
                     in_quotes(evidence_name(quantity.kind)), in_quotes(quantity.source));
}

std::string entry_text(const QuantityTable& table) {
  std::string rows;
  for (const std::vector<double>& row : table.rows) {
    std::vector<std::string> cells;
    for (const double cell : row) cells.push_back(number_text(cell));
    rows += fmt::format("  [{}],\n", fmt::join(cells, ", "));
  }
  return fmt::format("columns = [\"{}\"]\nkind = {}\nsource = {}\nrows = [\n{}]\n",
                     fmt::join(table.columns, "\", \""), in_quotes(evidence_name(table.kind)),
                     in_quotes(table.source), rows);
}

}  // namespace

std::string_view evidence_name(Evidence evidence) {
  return kEvidenceNames.at(static_cast<std::size_t>(evidence));
}

const std::string& QuantityFile::text(std::string_view key) const {
  const auto found = texts.find(key);
  TRI_CHECK(found != texts.end());
  return found->second;
}

double QuantityFile::value(std::string_view key) const {
  const auto found = quantities.find(key);
  TRI_CHECK(found != quantities.end());
  return found->second.value;
}

double QuantityFile::value_or(std::string_view key, double otherwise) const {
  const auto found = quantities.find(key);
  return found == quantities.end() ? otherwise : found->second.value;
}

const QuantityTable* QuantityFile::table(std::string_view key) const {
  const auto found = tables.find(key);
  return found == tables.end() ? nullptr : &found->second;
}

QuantityFile parse_quantity_file(std::string_view text, const std::string& name,
                                 const QuantityRules& rules) {
  try {
    return Reader(name, rules).read(toml::parse(text, name));
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("[{}:{}:{}] {}; correct the TOML", name, error.source().begin.line,
                                 error.source().begin.column, error.description()));
  }
}

std::string quantity_file_text(const QuantityFile& file, const QuantityRules& rules) {
  std::string result;
  for (const TextRule& rule : rules.texts) {
    const auto found = file.texts.find(rule.key);
    if (found != file.texts.end())
      result += fmt::format("{} = {}\n", rule.key, in_quotes(found->second));
  }
  std::string_view section;
  for (const QuantityRule& rule : rules.quantities) {
    const auto found = file.quantities.find(rule.key);
    if (found == file.quantities.end()) continue;
    const std::size_t dot = rule.key.find('.');
    if (rule.key.substr(0, dot) != section) {
      section = rule.key.substr(0, dot);
      result += fmt::format("\n[{}]\n", section);
    }
    result += fmt::format("{} = {}\n", rule.key.substr(dot + 1), entry_text(found->second));
  }
  for (const TableRule& rule : rules.tables) {
    const auto found = file.tables.find(rule.key);
    if (found != file.tables.end()) {
      result += fmt::format("\n[{}]\n{}", rule.key, entry_text(found->second));
    }
  }
  return result;
}

std::string built_in_names(std::string_view folder) {
  std::vector<std::string_view> names;
  for (const BuiltInFile& file : built_in_files()) {
    if (file.folder == folder) names.push_back(file.stem);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string quantity_file_source(const std::string& name_or_path, std::string_view folder) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml");
  if (is_path) {
    std::ifstream file;
    std::error_code error;
    // Reading from a folder throws where opening one does not fail.
    if (!std::filesystem::is_directory(name_or_path, error))
      file.open(name_or_path, std::ios::binary);
    if (!file.is_open()) {
      throw UsageError(
          fmt::format("[{}] cannot be read: must be a TOML file; correct the path", name_or_path));
    }
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string_view> known;
  for (const BuiltInFile& file : built_in_files()) {
    if (file.folder != folder) continue;
    if (file.stem == name_or_path) return std::string(file.text);
    known.push_back(file.stem);
  }
  throw UsageError(
      fmt::format("[{}] no file of this name in {}/: known are {}; did you mean {}? A file of your "
                  "own is given "
                  "as PATH.toml",
                  name_or_path, folder, fmt::join(known, ", "), nearest_name(name_or_path, known)));
}

}  // namespace trireme
