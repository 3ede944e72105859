// Checkpoint folders that are complete or absent, whenever the process dies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/checkpoint/file.h"
#include "trireme/checkpoint/safetensors.h"

namespace trireme {

inline constexpr std::int64_t kCheckpointFormatVersion = 2;

/// What state.json holds beside the format version and the checksums.
struct CheckpointState {
  std::int64_t step = 0;
  std::int64_t tokens = 0;                            ///< processed since the start of the run
  std::map<std::string, std::int64_t> data_position;  ///< samples taken, by source
  std::uint64_t rng_seed = 0;
  std::string config_hash;
  std::string trainer_json = "{}";  ///< an object: threads, instruction set, library version, ...
  bool operator==(const CheckpointState&) const = default;
};

/// A folder whose files were verified.
struct Checkpoint {
  std::filesystem::path dir;
  CheckpointState state;
  std::map<std::string, FileDigest> files;
};

/// Which older checkpoints a save removes. The one just saved always stays.
struct Retention {
  std::int64_t keep_last = 0;   ///< newest ones that stay; 0 = all stay
  std::int64_t keep_every = 0;  ///< multiples of this step stay too; 0 = none
};

/// A checkpoint being written; files that did not come through it make the save fail.
class CheckpointDraft {
 public:
  [[nodiscard]] const std::filesystem::path& dir() const { return dir_; }
  /// `fill` writes all tensors of dir()/file_name; the draft finishes the file.
  void write_tensors(const std::string& file_name, std::vector<TensorSpec> specs,
                     const std::function<void(SafetensorsWriter&)>& fill,
                     const TensorMetadata& metadata = {});
  void write_text(const std::string& file_name, std::string_view text);

 private:
  friend class CheckpointStore;
  explicit CheckpointDraft(std::filesystem::path dir) : dir_(std::move(dir)) {}
  void finish(const CheckpointState& state);

  std::filesystem::path dir_;
  std::map<std::string, FileDigest> files_;
};

/// Reads and verifies one checkpoint folder: state.json, and size and checksum of each file it
/// names. Throws UsageError if there is no such folder, ResourceError naming what is missing,
/// truncated or changed. Reads every byte once.
[[nodiscard]] Checkpoint open_checkpoint(const std::filesystem::path& dir);

/// The checkpoint of a folder that another process has opened just now: checks that the files are
/// there and of their size, and reads state.json alone. Throws as open_checkpoint does.
[[nodiscard]] Checkpoint reopen_checkpoint(const std::filesystem::path& dir);

/// open_checkpoint if the folder has a state.json; other folders have nothing to check.
void verify_if_checkpoint(const std::filesystem::path& dir);

/// The folder RUN/checkpoints with its step_00000010/ and the text file `latest`. One writer.
class CheckpointStore {
 public:
  /// Makes the folder. Throws ResourceError if that fails.
  CheckpointStore(const std::filesystem::path& run_dir, Retention retention);

  struct SaveReport {
    std::filesystem::path dir;
    std::vector<std::filesystem::path> removed;  ///< by retention
  };
  /// Removes what an interrupted save left, writes step_<8 digits>.incomplete, waits until it is on
  /// disk, renames it, replaces `latest`, then removes older ones by the retention rule. A complete
  /// checkpoint of the same step is replaced. On any failure the part-written files are removed,
  /// earlier checkpoints stay as they were, and the exception goes on. Throws ResourceError, before
  /// it writes, if fewer than `needed_bytes` (SafetensorsWriter::file_bytes) are free.
  SaveReport save(const CheckpointState& state, std::int64_t needed_bytes,
                  const std::function<void(CheckpointDraft&)>& fill);

  /// What an interrupted save or removal left. A folder that cannot be removed stays.
  void remove_leftovers() const;

  struct Search {
    std::optional<Checkpoint> newest;
    std::vector<std::string> warnings;  ///< what was skipped, and why
    bool has_folders = false;           ///< step folders, usable or not
  };
  /// The complete checkpoint of the highest step; folders left by a crash, and corrupted ones newer
  /// than the answer, are skipped and named. `latest` is for people: only a dangling one is named.
  [[nodiscard]] Search newest_complete() const;

  /// Free bytes at the folder, for a warning at start.
  [[nodiscard]] std::int64_t free_bytes() const;
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
  Retention retention_;
};

}  // namespace trireme
