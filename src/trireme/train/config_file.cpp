#include "trireme/train/config_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <toml++/toml.h>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/program/pipeline.h"
#include "trireme/train/option.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A checked value for an option.
struct Assignment {
  const Option* option = nullptr;
  OptionValue value;
  std::string where;  ///< "file:line:column" or "--section.key"
};

/// Where a text comes from: its name in messages, and the folders in which its relative paths are
/// looked for, in order.
struct Source {
  std::string name;
  std::vector<fs::path> folders;
  std::set<std::string> overridden = {};  ///< keys whose value here does not count: no lookup

  [[nodiscard]] std::string at(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
  }
};

std::string_view toml_type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a section";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

/// " = VALUE" for a plain value, else nothing.
std::string shown(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    return " = " + toml_text(*text);
  }
  if (const auto integer = node.value_exact<std::int64_t>()) {
    return " = " + toml_text(*integer);
  }
  if (const auto number = node.value_exact<double>()) {
    return " = " + toml_text(*number);
  }
  if (const auto flag = node.value_exact<bool>()) {
    return " = " + toml_text(*flag);
  }
  return "";
}

[[noreturn]] void throw_wrong_type(const Option& option, const std::string& name,
                                   const toml::node& node, const std::string& where) {
  const std::string example = option.is_required ? std::string(option.doc)
                                                 : fmt::format("for example {} = {}", option.key,
                                                               toml_text(option.default_value));
  throw UsageError(fmt::format("[{}] {}{} is {}: must be {}; {}", where, name, shown(node),
                               toml_type_name(node), rule_text(option), example));
}

/// The node as a T; an integer passes as a double, 0 and 1 as a boolean.
template <typename T>
std::optional<T> scalar(const toml::node& node) {
  if constexpr (std::is_same_v<T, double>) {
    if (const auto integer = node.value_exact<std::int64_t>()) {
      return static_cast<double>(*integer);
    }
  }
  if constexpr (std::is_same_v<T, bool>) {
    const auto integer = node.value_exact<std::int64_t>();
    if (integer == 0 || integer == 1) {
      return *integer == 1;
    }
  }
  return node.value_exact<T>();
}

template <typename T>
OptionValue value_of(const Option& option, const toml::node& node, const std::string& where) {
  if (const auto value = scalar<T>(node)) {
    return *value;
  }
  throw_wrong_type(option, option.name(), node, where);
}

template <typename T>
OptionValue list_of(const Option& option, const toml::node& node, const std::string& where) {
  const toml::array* const array = node.as_array();
  if (array == nullptr) {
    throw_wrong_type(option, option.name(), node, where);
  }
  std::vector<T> list;
  for (const toml::node& element : *array) {
    const auto value = scalar<T>(element);
    if (!value) {
      throw_wrong_type(option, fmt::format("{}[{}]", option.name(), list.size()), element, where);
    }
    list.push_back(*value);
  }
  return list;
}

OptionValue typed_value(const Option& option, const toml::node& node, const std::string& where) {
  switch (option.type) {
    case OptionType::kBool:
      return value_of<bool>(option, node, where);
    case OptionType::kInt:
      return value_of<std::int64_t>(option, node, where);
    case OptionType::kFloat:
      return value_of<double>(option, node, where);
    case OptionType::kText:
      return value_of<std::string>(option, node, where);
    case OptionType::kIntList:
      return list_of<std::int64_t>(option, node, where);
    case OptionType::kFloatList:
      return list_of<double>(option, node, where);
    case OptionType::kTextList:
      return list_of<std::string>(option, node, where);
  }
  TRI_CHECK(false);
}

/// `path` as found in the first of the source's folders that has it.
std::string found_path(const std::string& path, const Option& option, const Source& source,
                       const std::string& where) {
  for (const fs::path& folder : source.folders) {
    const fs::path candidate = (folder / path).lexically_normal();
    std::error_code ignored;
    if (!path.empty() && fs::exists(candidate, ignored)) {
      return candidate.string();
    }
  }
  std::vector<std::string> places;
  for (const fs::path& folder : source.folders) {
    places.push_back(folder.empty() ? "the current folder" : folder.string());
  }
  throw UsageError(fmt::format("[{}] {} names {}: must exist in {}; correct the path", where,
                               option.name(), toml_text(path), fmt::join(places, " or ")));
}

OptionValue with_found_paths(OptionValue value, const Option& option, const Source& source,
                             const std::string& where) {
  if (auto* const path = std::get_if<std::string>(&value)) {
    *path = found_path(*path, option, source, where);
  } else {
    for (std::string& path_of_list : std::get<std::vector<std::string>>(value)) {
      path_of_list = found_path(path_of_list, option, source, where);
    }
  }
  return value;
}

Assignment assignment(const Option& option, const toml::node& node, const Source& source,
                      std::string where) {
  OptionValue value = typed_value(option, node, where);
  check_value(option, value, where);
  const bool is_path =
      option.is_path || (option.is_csv_or_name && is_schedule_file(std::get<std::string>(value)));
  if (is_path && !source.overridden.contains(option.name())) {
    value = with_found_paths(std::move(value), option, source, where);
  }
  return {&option, std::move(value), std::move(where)};
}

/// A dotted key of thousands of parts would overrun the stack of the TOML reader.
void check_line_lengths(std::string_view text, const Source& source) {
  constexpr std::size_t kMaxLineBytes = 8192;
  int line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kMaxLineBytes) {
      throw UsageError(fmt::format("[{}:{}] a line of {} bytes: lines hold at most {}; break it",
                                   source.name, line, end - begin, kMaxLineBytes));
    }
    begin = end + 1;
  }
}

toml::table parsed(std::string_view text, const Source& source) {
  check_line_lengths(text, source);
  try {
    return toml::parse(text, source.name);
  } catch (const toml::parse_error& error) {
    throw UsageError(
        fmt::format("[{}] {}; correct this line", source.at(error.source()), error.description()));
  }
}

/// The assignments of the keys in `table`, which stand in `section`.
std::vector<Assignment> section_assignments(const toml::table& table, std::string_view section,
                                            const Source& source) {
  std::vector<Assignment> all;
  for (const auto& [key, node] : table) {
    const Option* const option = find_option(section, key.str());
    if (option == nullptr) {
      throw UsageError(fmt::format("[{}] {}.{}{} is not a known key; {}", source.at(key.source()),
                                   section, key.str(), shown(node),
                                   key_remedy(section, key.str())));
    }
    all.push_back(assignment(*option, node, source, source.at(node.source())));
  }
  return all;
}

bool is_section(std::string_view name) {
  const auto& sections = option_sections();
  return std::any_of(sections.begin(), sections.end(),
                     [&](const OptionSection& section) { return section.name == name; });
}

std::vector<Assignment> file_assignments(std::string_view text, const Source& source) {
  std::vector<Assignment> all;
  const toml::table root = parsed(text, source);
  for (const auto& [name, node] : root) {
    const std::string where = source.at(name.source());
    if (!is_section(name.str()) && node.is_table()) {
      throw UsageError(fmt::format("[{}] [{}] is not a known section; {}", where, name.str(),
                                   section_remedy(name.str())));
    }
    if (!is_section(name.str())) {
      throw UsageError(fmt::format("[{}] {}{} stands outside of any section; {}", where, name.str(),
                                   shown(node), key_remedy("", name.str())));
    }
    if (!node.is_table()) {
      throw UsageError(
          fmt::format("[{0}] {1}{2} is {3}: [{1}] is a section; write its keys below "
                      "a line [{1}]",
                      where, name.str(), shown(node), toml_type_name(node)));
    }
    for (Assignment& each : section_assignments(*node.as_table(), name.str(), source)) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

/// An override's value in TOML syntax.
std::string override_toml(const Option& option, const std::string& value) {
  const bool is_text = option.type == OptionType::kText || option.type == OptionType::kTextList;
  const auto element = [&](std::string_view text) {
    return is_text ? toml_text(std::string(text)) : std::string(text);
  };
  const bool is_list = option.type >= OptionType::kIntList;
  if (!is_list || value.starts_with('[')) {
    return is_list ? value : element(value);
  }
  std::string list;
  for (std::size_t begin = 0; begin <= value.size() && !value.empty();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    list += element(std::string_view(value).substr(begin, end - begin)) + ", ";
    begin = end + 1;
  }
  return "[" + list + "]";
}

const Option& override_option(const std::string& name) {
  const std::size_t dot = name.find('.');
  const std::string section = name.substr(0, dot);
  const std::string key = dot == name.npos ? "" : name.substr(dot + 1);
  if (dot == name.npos) {
    throw UsageError(
        fmt::format("[--{0}] {0} is not of the form section.key; {1}", name, key_remedy("", name)));
  }
  if (!is_section(section)) {
    throw UsageError(fmt::format("[--{}] [{}] is not a known section; {}", name, section,
                                 section_remedy(section)));
  }
  const Option* const option = find_option(section, key);
  if (option == nullptr) {
    throw UsageError(
        fmt::format("[--{0}] {0} is not a known key; {1}", name, key_remedy(section, key)));
  }
  return *option;
}

Assignment override_assignment(const ConfigOverride& given) {
  const Option& option = override_option(given.name);
  const std::string where = "--" + given.name;
  const auto refuse = [&] {
    throw UsageError(fmt::format("[{}] \"{}\" cannot be read: must be {}; {}", where, given.value,
                                 rule_text(option), option.doc));
  };
  toml::table table;
  try {
    table = toml::parse("value = " + override_toml(option, given.value));
  } catch (const toml::parse_error&) {
    refuse();
  }
  // A line break in the value must not smuggle in further keys.
  if (table.size() != 1) {
    refuse();
  }
  return assignment(option, *table.get("value"), {where, {""}}, where);
}

std::vector<Assignment> override_assignments(const std::vector<ConfigOverride>& overrides) {
  std::vector<Assignment> all;
  std::set<std::string> seen;
  for (const ConfigOverride& given : overrides) {
    if (!seen.insert(given.name).second) {
      throw UsageError(fmt::format("[--{0}] {0} is given twice; give it once", given.name));
    }
    all.push_back(override_assignment(given));
  }
  return all;
}

std::string file_text(const fs::path& path, std::string_view where) {
  constexpr std::uintmax_t kMaxBytes = 1 << 20;
  std::error_code error;
  const bool is_file = fs::is_regular_file(path, error);
  std::ifstream file;
  if (is_file) file.open(path, std::ios::binary);
  if (!is_file || !file) {
    throw UsageError(fmt::format("[{}] {} cannot be read: must be a file; correct the path", where,
                                 path.string()));
  }
  if (fs::file_size(path, error) > kMaxBytes) {
    throw UsageError(
        fmt::format("[{}] {} is larger than {} bytes: must be a config file; correct "
                    "the path",
                    where, path.string(), kMaxBytes));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> search_folders(const fs::path& folder) {
  return folder.empty() ? std::vector<fs::path>{""} : std::vector<fs::path>{folder, ""};
}

/// The keys of the model file that the last of `assignments` to model.file names, if any.
std::vector<Assignment> model_file_assignments(const std::vector<Assignment>& assignments) {
  const auto is_model_file = [](const Assignment& each) {
    return each.option->name() == "model.file";
  };
  const auto last = std::find_if(assignments.rbegin(), assignments.rend(), is_model_file);
  if (last == assignments.rend()) {
    return {};
  }
  const fs::path path = std::get<std::string>(last->value);
  const Source source{path.string(), search_folders(path.parent_path())};
  std::vector<Assignment> keys =
      section_assignments(parsed(file_text(path, last->where), source), "model", source);
  for (const Assignment& key : keys) {
    if (is_model_file(key)) {
      throw UsageError(
          fmt::format("[{}] model.file in a model file: must not name another; write "
                      "the keys themselves",
                      key.where));
    }
  }
  return keys;
}

}  // namespace

TrainConfig parse_config(std::string_view text, std::string_view name, const fs::path& folder,
                         const std::vector<ConfigOverride>& overrides) {
  Source source{std::string(name), search_folders(folder)};
  for (const ConfigOverride& given : overrides) source.overridden.insert(given.name);
  std::vector<Assignment> assignments = file_assignments(text, source);
  for (Assignment& each : override_assignments(overrides)) {
    assignments.push_back(std::move(each));
  }
  TrainConfig config;
  for (const Assignment& each : model_file_assignments(assignments)) {
    each.option->assign(config, each.value);
  }
  for (const Assignment& each : assignments) {
    each.option->assign(config, each.value);
  }
  config.model.file.clear();
  return config;
}

TrainConfig load_config(const fs::path& path, const std::vector<ConfigOverride>& overrides) {
  return parse_config(file_text(path, "config"), path.string(), path.parent_path(), overrides);
}

std::string config_toml(const TrainConfig& config) {
  std::string text;
  for (const OptionSection& section : option_sections()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    for (const Option& option : train_options()) {
      const OptionValue value = option.value_in(config);
      const bool is_unset = (option.is_required || option.is_path) && value == option.default_value;
      if (option.section == section.name && !is_unset) {
        text += fmt::format("{} = {}\n", option.key, toml_text(value));
      }
    }
  }
  return text;
}

}  // namespace trireme
