#include "trireme/checkpoint/child_path.h"

#include <system_error>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/json_text.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(std::string_view where, std::string_view name, std::string_view reason,
                         std::string_view remedy) {
  throw ResourceError(
      fmt::format("[checkpoint] {}: file name {} {}; it must be a plain name of a "
                  "file inside the folder; {}",
                  where, shown(name), reason, remedy));
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::filesystem::path child_path(const std::filesystem::path& folder, std::string_view name,
                                 std::string_view where) {
  if (!is_plain_name(name)) {
    refuse(where, name, "is no plain name", "do not use this file, or correct the entry");
  }
  std::filesystem::path child = folder / name;
  std::error_code error;
  if (!std::filesystem::is_symlink(std::filesystem::symlink_status(child, error))) return child;
  const auto target = std::filesystem::weakly_canonical(child, error);
  if (error) refuse(where, name, "is a link that leads nowhere", "put the file itself there");
  const auto inside = target.lexically_relative(std::filesystem::canonical(folder));
  if (inside.empty() || *inside.begin() == "..") {
    refuse(where, name, fmt::format("is a link to {}, outside the folder", shown(target.string())),
           "copy the file itself into the folder");
  }
  return child;
}

}  // namespace trireme
