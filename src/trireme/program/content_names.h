// Names of Content and of the enums whose inverse only the text form needs.
#pragma once

#include <optional>
#include <string_view>

#include "trireme/program/program.h"

namespace trireme {

[[nodiscard]] std::string_view content_name(Content content);
[[nodiscard]] std::optional<Content> parse_content(std::string_view name);
[[nodiscard]] std::optional<MemoryKind> parse_memory_kind(std::string_view name);
[[nodiscard]] std::optional<ProgramKind> parse_program_kind(std::string_view name);

}  // namespace trireme
