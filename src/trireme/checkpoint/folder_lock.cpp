#include "trireme/checkpoint/folder_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw ResourceError(
        fmt::format("[run] {}: {}; the run's folder must be readable; choose "
                    "another run.dir or run.name",
                    folder.string(), std::generic_category().message(errno)));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw ResourceError(
      fmt::format("[run] {}: another process trains in this folder, and two would destroy each "
                  "other's files; wait for it, or choose another run.name",
                  folder.string()));
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

}  // namespace trireme
