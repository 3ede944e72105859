// Files of numbers that each say where they come from: clusters/*.toml and profiles/*.toml.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// How a number came about.
enum class Evidence : std::uint8_t {
  kDatasheet,  ///< the maker says so, or it follows from what is computed
  kPublished,  ///< others have measured it
  kMeasured,   ///< on this machine, by `trireme calibrate`
  kFitted,     ///< to published measurements, by a script of this repository
};
[[nodiscard]] std::string_view evidence_name(Evidence evidence);

/// { value = 989e12, unit = "FLOP/s", kind = "datasheet", source = "..." }
struct Quantity {
  double value = 0;
  std::string unit = {};
  Evidence kind{};
  std::string source = {};
  bool operator==(const Quantity&) const = default;
};

/// { columns = ["nodes", "B/s"], rows = [[1, 4e11], ...], kind = "published", source = "..." }
struct QuantityTable {
  std::vector<std::string> columns = {};
  std::vector<std::vector<double>> rows = {};
  Evidence kind{};
  std::string source = {};
  bool operator==(const QuantityTable&) const = default;
};

/// A valid number of a kind of file. The key is "section.name".
struct QuantityRule {
  std::string_view key;
  std::string_view unit;
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool is_optional = false;
};
/// A valid table: its columns, and how many rows it has at least.
struct TableRule {
  std::string_view key;
  std::vector<std::string_view> columns;
  std::size_t min_rows = 1;
};
/// A valid text; `words` empty = any that is not empty.
struct TextRule {
  std::string_view key;
  std::vector<std::string_view> words = {};
  bool is_optional = false;
};

struct QuantityRules {
  std::string_view what;  ///< "cluster file"
  std::vector<TextRule> texts;
  std::vector<QuantityRule> quantities;
  std::vector<TableRule> tables;  ///< all optional
};

/// What a file says, by key; everything has been checked against the rules.
struct QuantityFile {
  std::string name;  ///< of the file, for messages
  std::map<std::string, std::string, std::less<>> texts = {};
  std::map<std::string, Quantity, std::less<>> quantities = {};
  std::map<std::string, QuantityTable, std::less<>> tables = {};

  bool operator==(const QuantityFile&) const = default;
  [[nodiscard]] const std::string& text(std::string_view key) const;
  /// InternalError for a key that the rules do not require.
  [[nodiscard]] double value(std::string_view key) const;
  [[nodiscard]] double value_or(std::string_view key, double otherwise) const;
  /// Nothing if the file lacks the table.
  [[nodiscard]] const QuantityTable* table(std::string_view key) const;
};

/// Reads TOML `text`. Throws UsageError naming file, line, key, value, rule and remedy for bad
/// syntax, unknown or missing keys, another unit, a value out of range, an unknown kind, and a
/// number without a source.
[[nodiscard]] QuantityFile parse_quantity_file(std::string_view text, const std::string& name,
                                               const QuantityRules& rules);

/// Inverse of parse_quantity_file, in the order of the rules.
[[nodiscard]] std::string quantity_file_text(const QuantityFile& file, const QuantityRules& rules);

/// The text of a file that is named by its path, or that was built in under its stem
/// ("h100-dgx" for clusters/h100-dgx.toml); `folder` is "clusters", "profiles" or "models".
/// Throws UsageError naming the nearest known name, and ResourceError if a path cannot be read.
[[nodiscard]] std::string quantity_file_source(const std::string& name_or_path,
                                               std::string_view folder);

/// A file of the repository that is part of the program.
struct BuiltInFile {
  std::string_view folder;
  std::string_view stem;
  std::string_view text;
};
[[nodiscard]] std::span<const BuiltInFile> built_in_files();
/// Stems of a folder's files, ", " between.
[[nodiscard]] std::string built_in_names(std::string_view folder);

}  // namespace trireme
