#include "trireme/program/content_names.h"

#include <array>
#include <cstddef>

namespace trireme {
namespace {

constexpr std::array<std::string_view, 6> kContents = {"state", "constant",  "input",
                                                       "step",  "transient", "framed"};

/// The value below `count` whose name is `name`.
template <typename Enum, typename Name>
std::optional<Enum> find_named(std::size_t count, Name name_of, std::string_view name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view content_name(Content content) {
  return kContents.at(static_cast<std::size_t>(content));
}

std::optional<Content> parse_content(std::string_view name) {
  return find_named<Content>(kContents.size(), content_name, name);
}

std::optional<MemoryKind> parse_memory_kind(std::string_view name) {
  return find_named<MemoryKind>(kNumMemoryKinds, memory_kind_name, name);
}

std::optional<ProgramKind> parse_program_kind(std::string_view name) {
  return find_named<ProgramKind>(4, program_kind_name, name);
}

}  // namespace trireme
