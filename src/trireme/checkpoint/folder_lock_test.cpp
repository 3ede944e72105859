#include "trireme/checkpoint/folder_lock.h"

#include <optional>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"

namespace trireme {
namespace {

TEST(FolderLock, IsHeldByOneAtATime) {
  const TestFolder own;
  const std::filesystem::path& folder = own.path();
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
