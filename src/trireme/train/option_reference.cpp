// The reference page of all configuration keys.
#include <fmt/format.h>

#include "trireme/train/option.h"

namespace trireme {
namespace {

/// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '|' ? "\\|" : std::string(1, c);
  }
  return escaped;
}

std::string option_row(const Option& option) {
  const std::string shown_default =
      option.is_required ? "required" : fmt::format("`{}`", toml_text(option.default_value));
  return fmt::format("| `{}` | {} | {} | {} |\n", option.key, cell(rule_text(option)),
                     cell(shown_default), cell(option.doc));
}

constexpr std::string_view kIntroduction =
    R"(<!-- Generated from the option table (src/trireme/train/option_table.cpp); a test compares. -->
# Configuration

A config file is TOML. Any key can be overridden on the command line as `--section.key value`, for
example `--optimizer.lr 3e-4 --data.text a.txt,b.txt`. Later ones win: defaults, the file named by
`model.file`, the config file, the command line. Relative paths in a file are looked for in the
file's folder, then in the current folder. Unknown keys, repeated keys, wrong types and invalid
values are refused before any work starts, with exit code 2. Each run writes the configuration that
it used, complete, to `config.toml` in its folder.

An integer may stand where a number is due, but not the other way round; 0 and 1 may stand for
false and true. "so far" marks what is not built yet: other values are refused by name.
)";

}  // namespace

std::string configuration_reference() {
  std::string page(kIntroduction);
  for (const OptionSection& section : option_sections()) {
    page +=
        fmt::format("\n## [{}]\n\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                    section.name, section.doc);
    for (const Option& option : train_options()) {
      page += option.section == section.name ? option_row(option) : "";
    }
  }
  return page;
}

}  // namespace trireme
