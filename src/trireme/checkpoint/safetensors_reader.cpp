#include <array>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/child_path.h"
#include "trireme/checkpoint/json_text.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/safetensors_header.h"

namespace trireme {
namespace {

constexpr std::int64_t kLengthBytes = 8;

[[noreturn]] void throw_no_tensor(const std::filesystem::path& place, std::string_view name,
                                  std::size_t num_tensors) {
  throw ResourceError(
      fmt::format("[checkpoint] {}: no tensor {} among its {}; the model needs it; "
                  "check that the file belongs to this model",
                  place.string(), shown(name), num_tensors));
}

/// The header's text, its length checked against the file before anything is allocated.
std::string read_header_text(const File& file, std::int64_t file_bytes) {
  const std::string name = file.path().string();
  constexpr std::string_view kRemedy = "this is no whole safetensors file: fetch or save it again";
  if (file_bytes < kLengthBytes) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: {} bytes; a safetensors file has at least 8; "
                    "{}",
                    name, file_bytes, kRemedy));
  }
  std::array<std::byte, kLengthBytes> length_bytes{};
  file.read(0, length_bytes);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes.size(); ++i) {
    length |= std::to_integer<std::uint64_t>(length_bytes.at(i)) << (8 * i);
  }
  const auto rest = static_cast<std::uint64_t>(file_bytes - kLengthBytes);
  if (length == 0 || length > static_cast<std::uint64_t>(kMaxHeaderBytes) || length > rest) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: header length {}; it must be at least 1, at "
                    "most {}, and within the {} bytes that follow; {}",
                    name, length, kMaxHeaderBytes, rest, kRemedy));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(File::open(path)) {
  const std::int64_t file_bytes = file_.size_bytes();
  const std::string text = read_header_text(file_, file_bytes);
  SafetensorsHeader header = parse_header(text, {.name = path.string(),
                                                 .data_offset = kLengthBytes + std::ssize(text),
                                                 .file_bytes = file_bytes});
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

std::optional<TensorInfo> SafetensorsReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return tensors_[found->second];
}

const TensorInfo& SafetensorsReader::at(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) throw_no_tensor(path(), name, tensors_.size());
  return tensors_[found->second];
}

void SafetensorsReader::read(std::string_view name, std::span<std::byte> out) const {
  TRI_CHECK(std::ssize(out) == at(name).bytes);
  read_range(name, 0, out);
}

void SafetensorsReader::read_range(std::string_view name, std::int64_t first_byte,
                                   std::span<std::byte> out) const {
  const TensorInfo& tensor = at(name);
  TRI_CHECK(first_byte >= 0 && first_byte <= tensor.bytes - std::ssize(out));
  file_.read(tensor.offset + first_byte, out);
}

ShardedReader::ShardedReader(const std::filesystem::path& folder, std::string_view stem) {
  const std::filesystem::path single = folder / fmt::format("{}.safetensors", stem);
  const std::filesystem::path index = folder / fmt::format("{}.safetensors.index.json", stem);
  std::error_code error;
  if (std::filesystem::exists(single, error)) {
    place_ = single;
    shards_.emplace_back(single);
    for (const TensorInfo& tensor : shards_.front().tensors()) {
      shard_by_name_.emplace(tensor.name, 0);
    }
    return;
  }
  if (!std::filesystem::exists(index, error)) {
    throw UsageError(
        fmt::format("[checkpoint] {}: has neither {} nor {}; a model folder holds one "
                    "of them; correct the path",
                    folder.string(), single.filename().string(), index.filename().string()));
  }
  place_ = index;
  open_shards(folder);
}

void ShardedReader::open_shards(const std::filesystem::path& folder) {
  constexpr std::int64_t kMaxIndexBytes = std::int64_t{64} << 20;
  const std::string where = place_.string();
  const auto root = parse_json_object(read_text(place_, kMaxIndexBytes), where);
  // All names are checked before the first file is opened.
  std::map<std::string, std::filesystem::path> path_by_file;
  const auto& weight_map = required_object(root, "weight_map", where);
  for (const auto& [name, file] : weight_map.items()) {
    const std::string entry = fmt::format("{}: weight_map {}", where, shown(name));
    const std::string file_name = required_text(weight_map, name, where + ": weight_map");
    path_by_file.emplace(file_name, child_path(folder, file_name, entry));
  }
  std::map<std::string, std::size_t> shard_by_file;
  for (const auto& [file_name, path] : path_by_file) {
    shard_by_file.emplace(file_name, shards_.size());
    shards_.emplace_back(path);
  }
  for (const auto& [name, file] : weight_map.items()) {
    const std::size_t shard = shard_by_file.at(file.get<std::string>());
    static_cast<void>(shards_[shard].at(name));  // refuses a shard that lacks it
    shard_by_name_.emplace(name, shard);
  }
}

std::vector<std::string> ShardedReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, shard] : shard_by_name_) names.push_back(name);
  return names;
}

std::optional<TensorInfo> ShardedReader::find(std::string_view name) const {
  const auto found = shard_by_name_.find(name);
  if (found == shard_by_name_.end()) return std::nullopt;
  return shards_[found->second].find(name);
}

const SafetensorsReader& ShardedReader::shard_of(std::string_view name) const {
  const auto found = shard_by_name_.find(name);
  if (found == shard_by_name_.end()) throw_no_tensor(place_, name, shard_by_name_.size());
  return shards_[found->second];
}

const TensorInfo& ShardedReader::at(std::string_view name) const {
  return shard_of(name).at(name);
}

void ShardedReader::read(std::string_view name, std::span<std::byte> out) const {
  shard_of(name).read(name, out);
}

void ShardedReader::read_range(std::string_view name, std::int64_t first_byte,
                               std::span<std::byte> out) const {
  shard_of(name).read_range(name, first_byte, out);
}

std::int64_t ShardedReader::bytes_read() const {
  std::int64_t bytes = 0;
  for (const SafetensorsReader& shard : shards_) bytes += shard.bytes_read();
  return bytes;
}

}  // namespace trireme
