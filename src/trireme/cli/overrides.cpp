#include "trireme/cli/overrides.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

/// True for "--word.word" up to an optional '=': options of the program itself have no dot.
bool is_override(std::string_view argument) {
  if (!argument.starts_with("--")) return false;
  const std::string_view name = argument.substr(2, argument.find('=') - 2);
  const bool has_only_key_letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  return has_only_key_letters && name.find('.') != std::string_view::npos;
}

}  // namespace

SplitArguments split_overrides(const std::vector<std::string>& arguments) {
  SplitArguments split;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!is_override(argument)) {
      split.plain.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (equals != std::string::npos) {
      split.overrides.push_back({.name = name, .value = argument.substr(equals + 1)});
    } else if (i + 1 < arguments.size()) {
      split.overrides.push_back({.name = name, .value = arguments[++i]});
    } else {
      throw UsageError(
          fmt::format("[command line] {}: has no value; write {} VALUE", argument, argument));
    }
  }
  return split;
}

}  // namespace trireme
