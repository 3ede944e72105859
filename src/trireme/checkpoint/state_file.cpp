#include "trireme/checkpoint/state_file.h"

#include <system_error>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/child_path.h"
#include "trireme/checkpoint/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr const char* kOwnChecksum = "state_xxh64";
constexpr std::int64_t kMaxStateBytes = std::int64_t{16} << 20;

void check_file_is_whole(const std::filesystem::path& path, const FileDigest& expected) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: missing; state.json names it with {} bytes; "
                    "put it back or use another checkpoint",
                    path.string(), expected.bytes));
  }
  const std::int64_t bytes = File::open(path).size_bytes();
  if (bytes != expected.bytes) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: {} bytes; state.json says {}: the file was "
                    "cut or changed; use another checkpoint",
                    path.string(), bytes, expected.bytes));
  }
}

CheckpointState parse_state(const Json& root, const std::string& where) {
  const std::int64_t version = required_count(root, "format_version", where);
  if (version != kCheckpointFormatVersion) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: format_version {}; this program reads {}; use "
                    "the program that wrote it",
                    where, version, kCheckpointFormatVersion));
  }
  CheckpointState state{.step = required_count(root, "step", where),
                        .tokens = required_count(root, "tokens", where),
                        .data_position = {},
                        .rng_seed = required_unsigned(root, "rng_seed", where),
                        .config_hash = required_text(root, "config_hash", where),
                        .trainer_json = required_object(root, "trainer", where).dump()};
  const Json& position = required_object(root, "data_position", where);
  for (const auto& [source, samples] : position.items()) {
    state.data_position[source] = required_count(position, source, where + ": data_position");
  }
  return state;
}

std::string text_of(const Json& root) {
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The text with one member more: the checksum of the text without it.
std::string with_checksum(Json root) {
  root[kOwnChecksum] = xxh64_hex(text_of(root));
  return text_of(root);
}

void check_own_checksum(Json root, const std::string& where) {
  const std::string expected = required_text(root, kOwnChecksum, where);
  root.erase(kOwnChecksum);
  const std::string found = xxh64_hex(text_of(root));
  if (found == expected) return;
  throw ResourceError(
      fmt::format("[checkpoint] {}: checksum {}; it says {} itself: the file was changed; use "
                  "another checkpoint",
                  where, found, expected));
}

}  // namespace

std::string encode_state(const CheckpointState& state,
                         const std::map<std::string, FileDigest>& files) {
  Json trainer = Json::parse(state.trainer_json, nullptr, /*allow_exceptions=*/false);
  if (!trainer.is_object()) {
    throw UsageError(
        fmt::format("[checkpoint] trainer_json = {}: it must be a JSON object; correct "
                    "the call",
                    shown(state.trainer_json)));
  }
  Json checksums = Json::object();
  for (const auto& [name, digest] : files) {
    checksums[name] = {{"bytes", digest.bytes}, {"xxh64", digest.xxh64}};
  }
  const Json root = {{"format_version", static_cast<std::uint64_t>(kCheckpointFormatVersion)},
                     {"step", state.step},
                     {"tokens", state.tokens},
                     {"data_position", state.data_position},
                     {"rng_seed", state.rng_seed},
                     {"config_hash", state.config_hash},
                     {"trainer", std::move(trainer)},
                     {"checksums", std::move(checksums)}};
  return with_checksum(root);
}

Checkpoint read_state(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / kStateFile;
  const std::string where = path.string();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: missing; a checkpoint without it was not "
                    "saved completely; use another checkpoint",
                    where));
  }
  const Json root = parse_json_object(read_text(path, kMaxStateBytes), where);
  Checkpoint checkpoint{.dir = dir, .state = parse_state(root, where), .files = {}};
  const Json& checksums = required_object(root, "checksums", where);
  for (const auto& [name, value] : checksums.items()) {
    const std::string entry = where + ": checksums " + shown(name);
    const Json& digest_object = required_object(checksums, name, where + ": checksums");
    const FileDigest digest{.bytes = required_count(digest_object, "bytes", entry),
                            .xxh64 = required_text(digest_object, "xxh64", entry)};
    check_file_is_whole(child_path(dir, name, entry), digest);
    checkpoint.files.emplace(name, digest);
  }
  check_own_checksum(root, where);
  return checkpoint;
}

}  // namespace trireme
