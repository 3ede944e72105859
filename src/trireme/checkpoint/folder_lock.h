// One process at a time writes into a run's folder.
#pragma once

#include <filesystem>

namespace trireme {

/// Holds a folder until it is destroyed or its process ends, however it ends. Leaves no file.
class FolderLock {
 public:
  /// Throws ResourceError if another process holds the folder, or if it cannot be opened. File
  /// systems without locks are used unlocked.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

}  // namespace trireme
