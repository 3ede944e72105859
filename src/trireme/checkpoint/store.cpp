#include "trireme/checkpoint/store.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/child_path.h"
#include "trireme/checkpoint/json_text.h"
#include "trireme/checkpoint/state_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIncomplete = ".incomplete";
constexpr std::string_view kStepPrefix = "step_";
constexpr const char* kLatest = "latest";

[[noreturn]] void throw_folder_error(const fs::path& path, std::string_view action,
                                     const std::error_code& error) {
  throw ResourceError(
      fmt::format("[checkpoint] {}: cannot be {}: {}; the folder must be writable; "
                  "check its rights and its disk",
                  path.string(), action, error.message()));
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_folder_error(path, "made", error);
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw_folder_error(from, fmt::format("renamed to {}", to.filename().string()), error);
}

/// The step of "step_00000010", whatever its number of digits; nothing for other names.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || name.front() == '-') {
    return std::nullopt;
  }
  return step;
}

struct StepFolder {
  std::int64_t step = 0;
  fs::path dir;
};

struct Listing {
  std::vector<StepFolder> steps;     ///< by number, not text; newest first
  std::vector<fs::path> incomplete;  ///< ascending names
};

Listing list_folder(const fs::path& root) {
  Listing listing;
  std::error_code error;
  if (!fs::exists(root, error)) return listing;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(kIncomplete)) {
      listing.incomplete.push_back(at->path());
    } else if (const auto step = step_of(name)) {
      listing.steps.push_back({*step, at->path()});
    }
  }
  if (error) throw_folder_error(root, "listed", error);
  std::sort(listing.incomplete.begin(), listing.incomplete.end());
  std::sort(listing.steps.begin(), listing.steps.end(),
            [](const StepFolder& a, const StepFolder& b) {
              return std::tie(a.step, a.dir) > std::tie(b.step, b.dir);
            });
  return listing;
}

/// Removes a checkpoint so that a crash in between leaves nothing that looks complete.
void remove_checkpoint(const fs::path& dir) {
  const fs::path doomed = dir.string() + std::string(kIncomplete);
  rename_path(dir, doomed);
  std::error_code error;
  fs::remove_all(doomed, error);
  if (error) throw_folder_error(doomed, "removed", error);
}

/// Moves the finished folder into place; a checkpoint of the same step makes way.
void publish(const fs::path& draft, const fs::path& dir) {
  const fs::path replaced = dir.string() + ".replaced" + std::string(kIncomplete);
  std::error_code error;
  const bool is_replacing = fs::exists(dir, error);
  if (is_replacing) rename_path(dir, replaced);
  try {
    rename_path(draft, dir);
  } catch (...) {
    if (is_replacing) fs::rename(replaced, dir, error);
    throw;
  }
  sync_directory(dir.parent_path());
  fs::remove_all(replaced, error);
}

void write_latest(const fs::path& root, const std::string& name) {
  const fs::path draft = root / (kLatest + std::string(kIncomplete));
  std::error_code ignored;
  fs::remove(draft, ignored);
  try {
    write_text(draft, name + "\n");
    rename_path(draft, root / kLatest);
  } catch (...) {
    fs::remove(draft, ignored);
    throw;
  }
  sync_directory(root);
}

bool has_all_files(const fs::path& dir) {
  try {
    static_cast<void>(read_state(dir));
    return true;
  } catch (const ResourceError&) {
    return false;
  }
}

/// Applies the retention rule after `saved`; damaged folders neither count nor are removed.
std::vector<fs::path> prune(const fs::path& root, const Retention& retention,
                            const fs::path& saved) {
  std::vector<fs::path> removed;
  if (retention.keep_last == 0) return removed;
  std::int64_t num_kept = 1;  // `saved`
  for (const StepFolder& folder : list_folder(root).steps) {
    if (folder.dir == saved || !has_all_files(folder.dir)) continue;
    const bool is_milestone = retention.keep_every > 0 && folder.step % retention.keep_every == 0;
    if (num_kept < retention.keep_last) {
      ++num_kept;
    } else if (!is_milestone) {
      remove_checkpoint(folder.dir);
      removed.push_back(folder.dir);
    }
  }
  return removed;
}

void check_free(const fs::path& root, std::int64_t free_bytes, std::int64_t needed_bytes) {
  if (free_bytes >= needed_bytes) return;
  throw ResourceError(
      fmt::format("[checkpoint] {}: needed {} bytes ({}), free {} bytes ({}); a "
                  "checkpoint must fit beside the earlier ones; free some space, "
                  "lower checkpoint.keep_last or choose another run.dir",
                  root.string(), needed_bytes, format_bytes(needed_bytes), free_bytes,
                  format_bytes(free_bytes)));
}

void warn_of_dangling_latest(const fs::path& root, std::vector<std::string>& warnings) {
  std::error_code error;
  if (!fs::exists(root / kLatest, error)) return;
  constexpr std::int64_t kMaxNameBytes = 4096;
  try {
    std::string name = read_text(root / kLatest, kMaxNameBytes);
    while (name.ends_with('\n')) name.pop_back();
    if (is_plain_name(name) && fs::is_directory(root / name, error)) return;
    warnings.push_back(fmt::format("[checkpoint] {}: names {}, which does not exist",
                                   (root / kLatest).string(), shown(name)));
  } catch (const ResourceError& unreadable) {
    warnings.emplace_back(unreadable.what());
  }
}

}  // namespace

void CheckpointDraft::write_tensors(const std::string& file_name, std::vector<TensorSpec> specs,
                                    const std::function<void(SafetensorsWriter&)>& fill,
                                    const TensorMetadata& metadata) {
  TRI_CHECK(is_plain_name(file_name) && file_name != kStateFile);
  SafetensorsWriter writer(dir_ / file_name, std::move(specs), metadata);
  fill(writer);
  files_[file_name] = writer.finish();
}

void CheckpointDraft::write_text(const std::string& file_name, std::string_view text) {
  TRI_CHECK(is_plain_name(file_name) && file_name != kStateFile);
  files_[file_name] = trireme::write_text(dir_ / file_name, text);
}

void CheckpointDraft::finish(const CheckpointState& state) {
  std::error_code error;
  for (fs::directory_iterator at(dir_, error), end; !error && at != end; at.increment(error))
    TRI_CHECK(files_.contains(at->path().filename().string()));
  if (error) throw_folder_error(dir_, "listed", error);
  trireme::write_text(dir_ / kStateFile, encode_state(state, files_));
  sync_directory(dir_);
}

Checkpoint reopen_checkpoint(const fs::path& dir) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) {
    throw UsageError(
        fmt::format("[checkpoint] {}: no such folder; a checkpoint is a folder such as "
                    "RUN/checkpoints/step_00000010; correct the path",
                    dir.string()));
  }
  return read_state(dir);
}

Checkpoint open_checkpoint(const fs::path& dir) {
  Checkpoint checkpoint = reopen_checkpoint(dir);
  for (const auto& [name, expected] : checkpoint.files) {
    const FileDigest found = digest_of(dir / name);
    if (found != expected) {
      throw ResourceError(
          fmt::format("[checkpoint] {}: checksum {}; state.json says {}: the file "
                      "was changed; use another checkpoint",
                      (dir / name).string(), found.xxh64, expected.xxh64));
    }
  }
  return checkpoint;
}

void verify_if_checkpoint(const fs::path& dir) {
  std::error_code error;
  if (fs::exists(dir / kStateFile, error)) static_cast<void>(open_checkpoint(dir));
}

CheckpointStore::CheckpointStore(const fs::path& run_dir, Retention retention)
    : root_(run_dir / "checkpoints"), retention_(retention) {
  if (retention.keep_last < 0 || retention.keep_every < 0) {
    throw UsageError(
        fmt::format("[checkpoint] keep_last = {}, keep_every = {}: both must be >= 0 "
                    "(0 = keep all, no milestones); correct them",
                    retention.keep_last, retention.keep_every));
  }
  make_folder(root_);
}

CheckpointStore::SaveReport CheckpointStore::save(
    const CheckpointState& state, std::int64_t needed_bytes,
    const std::function<void(CheckpointDraft&)>& fill) {
  TRI_CHECK(state.step >= 0);
  make_folder(root_);  // someone may have removed it since the last save
  const std::string name = fmt::format("{}{:08}", kStepPrefix, state.step);
  const fs::path draft_dir = root_ / (name + std::string(kIncomplete));
  remove_leftovers();
  check_free(root_, free_bytes(), needed_bytes);
  try {
    make_folder(draft_dir);
    CheckpointDraft draft(draft_dir);
    fill(draft);
    draft.finish(state);
    publish(draft_dir, root_ / name);
  } catch (...) {
    std::error_code error;
    fs::remove_all(draft_dir, error);
    throw;
  }
  write_latest(root_, name);
  return {.dir = root_ / name, .removed = prune(root_, retention_, root_ / name)};
}

void CheckpointStore::remove_leftovers() const {
  std::error_code error;
  for (const fs::path& leftover : list_folder(root_).incomplete) fs::remove_all(leftover, error);
}

CheckpointStore::Search CheckpointStore::newest_complete() const {
  const Listing listing = list_folder(root_);
  Search search;
  search.has_folders = !listing.steps.empty();
  warn_of_dangling_latest(root_, search.warnings);
  for (const fs::path& leftover : listing.incomplete) {
    search.warnings.push_back(
        fmt::format("[checkpoint] {}: left by an interrupted save; skipped", leftover.string()));
  }
  for (const StepFolder& folder : listing.steps) {
    try {
      Checkpoint checkpoint = open_checkpoint(folder.dir);
      if (checkpoint.state.step == folder.step) {
        search.newest = std::move(checkpoint);
        break;
      }
      search.warnings.push_back(fmt::format("[checkpoint] {}: state.json says step {}; skipped",
                                            folder.dir.string(), checkpoint.state.step));
    } catch (const Error& damage) {
      search.warnings.push_back(fmt::format("{} (skipped)", damage.what()));
    }
  }
  return search;
}

std::int64_t CheckpointStore::free_bytes() const {
  std::error_code error;
  const fs::space_info space = fs::space(root_, error);
  if (error) throw_folder_error(root_, "measured", error);
  return narrow<std::int64_t>(space.available);
}

}  // namespace trireme
