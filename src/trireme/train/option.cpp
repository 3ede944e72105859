#include "trireme/train/option.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"

namespace trireme {
namespace {

std::string toml_number(double value) {
  if (!std::isfinite(value)) {
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string element_text(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string element_text(double value) {
  return toml_number(value);
}
std::string element_text(std::string_view value) {
  return toml_quoted(value);
}

template <typename T>
std::string list_text(const std::vector<T>& list) {
  std::string text = "[";
  for (const T& element : list) {
    text += (text.size() > 1 ? ", " : "") + element_text(element);
  }
  return text + "]";
}

bool is_integral(const Option& option) {
  return option.type == OptionType::kInt || option.type == OptionType::kIntList;
}

/// A bound as people write it: 1 rather than 1.0.
std::string bound_text(double bound) {
  return fmt::format("{}", bound);
}

std::string range_text(const Option& option) {
  const NumberRange& range = option.range;
  const bool has_min = std::isfinite(range.min);
  // The limit of 32 bits is no rule that anyone needs to read.
  const bool has_max = range.max < std::numeric_limits<int>::max();
  if (has_min && has_max && is_integral(option)) {
    return fmt::format(" in {}..{}", bound_text(range.min), bound_text(range.max));
  }
  if (has_min && has_max) {
    return fmt::format(" in {}{}, {}{}", range.excludes_min ? '(' : '[', bound_text(range.min),
                       bound_text(range.max), range.excludes_max ? ')' : ']');
  }
  return has_min ? fmt::format(" {} {}", range.excludes_min ? ">" : ">=", bound_text(range.min))
                 : "";
}

std::string one_rule(const Option& option) {
  switch (option.type) {
    case OptionType::kBool:
      return "true or false";
    case OptionType::kInt:
      return "an integer" + range_text(option);
    case OptionType::kFloat:
      return "a number" + range_text(option);
    case OptionType::kText:
      return option.words.empty() ? option.is_path ? "a path" : "a text"
                                  : fmt::format("one of {}", fmt::join(option.words, ", "));
    case OptionType::kIntList:
      return "a list of integers" + range_text(option);
    case OptionType::kFloatList:
      return fmt::format("a list of {} numbers{}", option.list_elems, range_text(option));
    case OptionType::kTextList:
      return option.is_path ? "a list of paths" : "a list of texts";
  }
  TRI_CHECK(false);
}

/// "[file:line:column] section.key", or "[section] key" of a config that came from no text.
std::string place(const Option& option, std::string_view where) {
  return where.empty() ? fmt::format("[{}] {}", option.section, option.key)
                       : fmt::format("[{}] {}", where, option.name());
}

[[noreturn]] void throw_invalid(const Option& option, const OptionValue& value,
                                std::string_view where, std::string_view remedy) {
  throw UsageError(fmt::format("{} = {}: must be {}; {}", place(option, where), toml_text(value),
                               one_rule(option), remedy));
}

bool is_in(const NumberRange& range, double number) {
  const bool above_min = range.excludes_min ? number > range.min : number >= range.min;
  const bool below_max = range.excludes_max ? number < range.max : number <= range.max;
  return std::isfinite(number) && above_min && below_max;
}

/// The bound that `number` oversteps if it is valid itself, else the default as an example.
std::string number_remedy(const Option& option, double number) {
  const double nearest = std::clamp(number, option.range.min, option.range.max);
  if (std::isfinite(nearest) && is_in(option.range, nearest)) {
    return is_integral(option) ? fmt::format("the nearest valid value is {:.0f}", nearest)
                               : "the nearest valid value is " + bound_text(nearest);
  }
  return fmt::format("for example {} = {}, the default", option.key,
                     toml_text(option.default_value));
}

void check_numbers(const Option& option, const OptionValue& value, std::string_view where) {
  const auto check = [&](auto number) {
    if (!is_in(option.range, static_cast<double>(number))) {
      throw_invalid(option, value, where, number_remedy(option, static_cast<double>(number)));
    }
  };
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
    check(*integer);
  } else if (const auto* const number = std::get_if<double>(&value)) {
    check(*number);
  } else if (const auto* const integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    std::for_each(integers->begin(), integers->end(), check);
  } else if (const auto* const numbers = std::get_if<std::vector<double>>(&value)) {
    if (static_cast<std::int64_t>(numbers->size()) != option.list_elems) {
      throw_invalid(option, value, where,
                    fmt::format("it has {}; for example {} = {}, the default", numbers->size(),
                                option.key, toml_text(option.default_value)));
    }
    std::for_each(numbers->begin(), numbers->end(), check);
  }
}

/// A key or alias at its distance from a word.
struct Match {
  const Option* option = nullptr;
  std::int64_t distance = std::numeric_limits<std::int64_t>::max();
};

Match nearer(const Match& best, std::string_view word, const Option& option) {
  Match match = best;
  const auto consider = [&](std::string_view name) {
    if (const std::int64_t distance = edit_distance(word, name); distance < match.distance) {
      match = {&option, distance};
    }
  };
  consider(option.key);
  std::for_each(option.aliases.begin(), option.aliases.end(), consider);
  return match;
}

/// Keys have no hyphens and no capitals: "Num-Layers" is "num_layers".
std::string in_our_spelling(std::string_view key) {
  std::string spelt(key);
  for (char& c : spelt) {
    c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return spelt;
}

}  // namespace

OptionType type_of(const OptionValue& value) {
  return static_cast<OptionType>(value.index());
}

std::string toml_text(const OptionValue& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return element_text(number); }
    std::string operator()(double number) const { return element_text(number); }
    std::string operator()(const std::string& text) const { return element_text(text); }
    std::string operator()(const std::vector<std::int64_t>& list) const { return list_text(list); }
    std::string operator()(const std::vector<double>& list) const { return list_text(list); }
    std::string operator()(const std::vector<std::string>& list) const { return list_text(list); }
  };
  return std::visit(Writer{}, value);
}

std::string Option::name() const {
  return fmt::format("{}.{}", section, key);
}

const Option* find_option(std::string_view section, std::string_view key) {
  const auto& options = train_options();
  const auto at = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return option.section == section && option.key == key;
  });
  return at == options.end() ? nullptr : &*at;
}

std::string rule_text(const Option& option) {
  return option.unbuilt.empty()
             ? one_rule(option)
             : fmt::format("{}; only {} so far", one_rule(option), toml_text(option.default_value));
}

void check_value(const Option& option, const OptionValue& value, std::string_view where) {
  TRI_CHECK(type_of(value) == option.type);
  check_numbers(option, value, where);
  const auto* const text = std::get_if<std::string>(&value);
  if (text != nullptr && !option.words.empty() &&
      std::find(option.words.begin(), option.words.end(), *text) == option.words.end()) {
    throw_invalid(option, value, where,
                  fmt::format("did you mean {}?", nearest_name(*text, option.words)));
  }
  if (!option.unbuilt.empty() && value != option.default_value) {
    throw UsageError(fmt::format("{} = {}: {} is not built yet; use {} = {}", place(option, where),
                                 toml_text(value), option.unbuilt, option.key,
                                 toml_text(option.default_value)));
  }
}

std::string section_remedy(std::string_view section) {
  std::vector<std::string_view> names;
  for (const OptionSection& known : option_sections()) {
    names.push_back(known.name);
  }
  return fmt::format("did you mean [{}]? The sections are {}",
                     nearest_name(in_our_spelling(section), names), fmt::join(names, ", "));
}

std::string key_remedy(std::string_view section, std::string_view key) {
  const std::string word = in_our_spelling(key);
  Match here;
  Match elsewhere;
  std::vector<std::string> homes;
  for (const Option& option : train_options()) {
    Match& best = option.section == section ? here : elsewhere;
    best = nearer(best, word, option);
    if (option.section != section && option.key == word) {
      homes.push_back(fmt::format("[{}]", option.section));
    }
  }
  if (here.distance > 0 && !homes.empty()) {
    return fmt::format("\"{}\" belongs in {}", word, fmt::join(homes, " or "));
  }
  // Words of another section are offered only when they are clearly what was meant.
  const auto most_typos = static_cast<std::int64_t>(std::max<std::size_t>(1, word.size() / 4));
  const bool is_elsewhere = here.option == nullptr || (elsewhere.distance < here.distance &&
                                                       elsewhere.distance <= most_typos);
  const Option* const meant = is_elsewhere ? elsewhere.option : here.option;
  TRI_CHECK(meant != nullptr);
  return fmt::format("did you mean \"{}\" in [{}]?", meant->key, meant->section);
}

}  // namespace trireme
