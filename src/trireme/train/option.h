// The table of all configuration keys: parsing, command-line overrides, error messages, the
// resolved config.toml and the reference page all read it, so that they cannot drift apart.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/train/config.h"

namespace trireme {

/// The value of an option. Enumerations are text.
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                 std::vector<double>, std::vector<std::string>>;

/// Same order as OptionValue.
enum class OptionType : std::uint8_t {
  kBool,
  kInt,
  kFloat,
  kText,
  kIntList,
  kFloatList,
  kTextList,
};

[[nodiscard]] OptionType type_of(const OptionValue& value);

/// As in TOML, numbers in the shortest form that reads back to the same number, independent of the
/// locale.
[[nodiscard]] std::string toml_text(const OptionValue& value);

/// Valid numbers of an option, or of each element of a list.
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool excludes_min = false;
  bool excludes_max = false;
};

/// One key of a config file.
struct Option {
  std::string_view section;
  std::string_view key;
  std::string_view doc;  ///< one line with the unit
  OptionType type{};
  OptionValue default_value;
  NumberRange range;
  std::vector<std::string_view> words;    ///< valid words; empty = any text
  std::vector<std::string_view> aliases;  ///< names in other trainers: only to suggest this key
  std::int64_t list_elems = 0;            ///< required length of a list; 0 = any
  bool is_required = false;
  bool is_path = false;           ///< relative to the config file's folder or the current one
  bool is_csv_or_name = false;    ///< such a path if is_schedule_file, else a name
  bool changes_training = false;  ///< part of `training_text`
  /// What is not built yet (so that only the default value is valid); empty = all is built.
  std::string_view unbuilt;
  std::function<OptionValue(const TrainConfig&)> value_in;
  std::function<void(TrainConfig&, const OptionValue&)> assign;  ///< expects a checked value

  /// "section.key"
  [[nodiscard]] std::string name() const;
};

/// All options in the order of the reference page.
[[nodiscard]] const std::vector<Option>& train_options();

/// The sections in order, and what each is about.
struct OptionSection {
  std::string_view name;
  std::string_view doc;
};
[[nodiscard]] const std::vector<OptionSection>& option_sections();

/// Nothing if there is no such key.
[[nodiscard]] const Option* find_option(std::string_view section, std::string_view key);

/// Remedy for a section that does not exist: the nearest one.
[[nodiscard]] std::string section_remedy(std::string_view section);

/// Remedy for a key that `section` lacks: the nearest key there, or the section where it belongs.
/// An empty `section` stands for a key outside of any section.
[[nodiscard]] std::string key_remedy(std::string_view section, std::string_view key);

/// Throws UsageError unless `value`, which has the option's type, is valid: range, words, list
/// length, built. `where` is "file:line:column" or "--section.key"; empty for a config built in
/// code.
void check_value(const Option& option, const OptionValue& value, std::string_view where);

/// "an integer >= 1", "one of naive, bucketed, overlapped", ...
[[nodiscard]] std::string rule_text(const Option& option);

/// The page docs/reference/configuration.md.
[[nodiscard]] std::string configuration_reference();

}  // namespace trireme
