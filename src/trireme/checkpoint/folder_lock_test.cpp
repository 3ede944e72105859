#include "trireme/checkpoint/folder_lock.h"

#include <optional>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

TEST(FolderLock, IsHeldByOneAtATime) {
  const std::filesystem::path folder = testing::TempDir();
  std::optional<FolderLock> first(folder);
  EXPECT_THROW(FolderLock second(folder), ResourceError);
  first.reset();
  EXPECT_NO_THROW(FolderLock third(folder));
}

TEST(FolderLock, NeedsAFolder) {
  EXPECT_THROW(FolderLock lock(testing::TempDir() + "no_such_folder"), ResourceError);
}

}  // namespace
}  // namespace trireme
