// Saves on full and read-only disks, and saves whose process is killed.
#include <cerrno>
#include <cstring>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/checkpoint/store.h"
#include "trireme/checkpoint/store_test_run.h"

namespace trireme {
namespace {

/// A file system of 1 MiB that only this process sees.
class TinyDisk : public testing::Test {
 protected:
  void SetUp() override {
    const bool is_mounted = ::unshare(CLONE_NEWNS) == 0 &&
                            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                            ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!is_mounted) GTEST_SKIP() << "cannot mount a tmpfs here: " << std::strerror(errno);
  }
  void TearDown() override { ::umount(folder_.path().c_str()); }

  [[nodiscard]] CheckpointStore store() const { return CheckpointStore(folder_.path(), {}); }
  [[nodiscard]] std::filesystem::path root() const { return folder_.path() / "checkpoints"; }

  TestFolder folder_;
};

constexpr std::int64_t kMostOfTheDisk = 700'000;

TEST_F(TinyDisk, ASecondSaveThatDoesNotFitIsRefusedAndTheFirstStays) {
  CheckpointStore store = this->store();
  save_step(store, 1, kMostOfTheDisk);
  const std::string message =
      message_of<ResourceError>([&] { save_step(store, 2, kMostOfTheDisk); });
  EXPECT_CONTAINS(message, root().string() + ": needed 700000 bytes");
  EXPECT_CONTAINS(message, ", free ");
  EXPECT_EQ(store.newest_complete().newest->state.step, 1);
}

TEST_F(TinyDisk, ADiskThatFillsUpDuringASaveLosesNothingElse) {
  CheckpointStore store = this->store();
  save_step(store, 1, kMostOfTheDisk);
  const std::string message = message_of<ResourceError>([&] {
    store.save(state_at(2), 0,
               [](CheckpointDraft& draft) { fill_model(draft, 2, kMostOfTheDisk); });
  });
  EXPECT_CONTAINS(message,
                  "step_00000002.incomplete/model.safetensors: cannot be written: No space");
  EXPECT_CONTAINS(message, "needed ");
  EXPECT_CONTAINS(message, ", free ");
  EXPECT_EQ(listing(root()), "latest step_00000001");
  EXPECT_EQ(store.newest_complete().newest->state.step, 1);
}

TEST_F(TinyDisk, AReadOnlyDiskIsNamedAndStillReads) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  ASSERT_EQ(::mount(nullptr, folder_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_CONTAINS(message_of<ResourceError>([&] { save_step(store, 2); }),
                  "step_00000002.incomplete: cannot be made: Read-only file system");
  EXPECT_EQ(store.newest_complete().newest->state.step, 1);
}

/// Saves one checkpoint after the other, and writes 'p' to `progress` after each piece of a tensor
/// and 's' after each complete save.
[[noreturn]] void save_forever(const std::filesystem::path& run_dir, std::int64_t first_step,
                               int progress) {
  constexpr std::int64_t kNumPieces = 8;
  const std::string piece(4096, 'x');
  const auto report = [progress](char what) {
    if (::write(progress, &what, 1) != 1) ::_exit(1);
  };
  CheckpointStore store(run_dir, {.keep_last = 2});
  for (std::int64_t step = first_step;; ++step) {
    store.save(state_at(step), 0, [&](CheckpointDraft& draft) {
      draft.write_tensors(
          "model.safetensors",
          {{.name = "w", .dtype = DType::kU8, .shape = {kNumPieces * std::ssize(piece)}}},
          [&](SafetensorsWriter& writer) {
            for (std::int64_t i = 0; i < kNumPieces; ++i) {
              writer.write("w", std::as_bytes(std::span(piece)));
              report('p');
            }
          });
    });
    report('s');
  }
}

/// Runs save_forever in another process, kills it after `num_reports` reports, and returns the
/// number of complete saves that it reported.
std::int64_t num_saves_before_kill(const std::filesystem::path& run_dir, std::int64_t first_step,
                                   std::int64_t num_reports) {
  int ends[2];
  if (::pipe(ends) != 0) throw ResourceError("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    save_forever(run_dir, first_step, ends[1]);
  }
  ::close(ends[1]);
  std::int64_t num_saves = 0;
  char what = 0;
  for (std::int64_t i = 0; ::read(ends[0], &what, 1) == 1; ++i) {
    if (what == 's') ++num_saves;
    if (i == num_reports) ::kill(child, SIGKILL);  // what is in the pipe is still read
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return num_saves;
}

TEST(KilledSave, TheNewestCompleteCheckpointIsAlwaysFound) {
  const TestFolder run;
  std::int64_t newest_step = 0;
  for (std::uint32_t round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const std::int64_t num_reports = 9 + philox(1, {round, 0, 0, 0})[0] % 40;
    const std::int64_t num_saves = num_saves_before_kill(run.path(), newest_step + 1, num_reports);
    const auto search = CheckpointStore(run.path(), {}).newest_complete();
    ASSERT_TRUE(search.newest.has_value());
    // A save may be complete before it is reported.
    EXPECT_GE(search.newest->state.step, newest_step + num_saves);
    EXPECT_LE(search.newest->state.step, newest_step + num_saves + 1);
    EXPECT_GE(num_saves, 1);
    for (const std::string& warning : search.warnings) {
      EXPECT_CONTAINS(warning, ".incomplete: left by an interrupted save");
    }
    newest_step = search.newest->state.step;
  }
}

}  // namespace
}  // namespace trireme
