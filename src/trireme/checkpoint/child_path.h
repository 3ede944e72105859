// File names that come from a file: they must stay inside its folder.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

/// True for a name that is one path component, not empty, "." or "..", without NUL.
[[nodiscard]] bool is_plain_name(std::string_view name);

/// folder / name. Throws ResourceError naming `where` and the entry, before anything is opened,
/// unless `name` is a plain name and no symbolic link that leaves `folder`. The file need not
/// exist.
[[nodiscard]] std::filesystem::path child_path(const std::filesystem::path& folder,
                                               std::string_view name, std::string_view where);

}  // namespace trireme
