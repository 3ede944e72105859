// The safetensors format: 8 bytes of header length (little-endian), a JSON header, the tensors.
// https://github.com/huggingface/safetensors (format section of its README; limits of tensor.rs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/checkpoint/file.h"

namespace trireme {

/// Longest header that is read or written, as in the reference reader.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

/// What a tensor is, before it has a place in a file.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< [] is a scalar
  bool operator==(const TensorSpec&) const = default;
};

/// A tensor in a file. `offset` counts from the start of the file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const TensorInfo&) const = default;
};

/// The free texts under "__metadata__".
using TensorMetadata = std::map<std::string, std::string, std::less<>>;

/// A safetensors file from anywhere: its header is checked whole before the constructor returns
/// (limits, types, integer ranges, repeated keys, holes, overlaps, padding), and nothing is
/// allocated from what it claims. Data is read on request, so the file may exceed the memory.
/// Const and thread-safe. Every error is a ResourceError naming the file and the tensor.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their data.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const TensorMetadata& metadata() const { return metadata_; }
  [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const;
  /// Like find, but throws if there is no such tensor.
  [[nodiscard]] const TensorInfo& at(std::string_view name) const;
  /// out.size() == bytes of the tensor. Any alignment of the data in the file.
  void read(std::string_view name, std::span<std::byte> out) const;
  /// out.size() bytes of the tensor from its byte `first_byte`.
  void read_range(std::string_view name, std::int64_t first_byte, std::span<std::byte> out) const;
  /// From the file so far, its header included.
  [[nodiscard]] std::int64_t bytes_read() const { return file_.bytes_read(); }

 private:
  File file_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  TensorMetadata metadata_;
};

/// All tensors of a model folder: `<stem>.safetensors`, or else the shards that
/// `<stem>.safetensors.index.json` names in its weight_map. A shard name must be a plain file name
/// that stays inside the folder: the index may come from anywhere. Errors as SafetensorsReader;
/// UsageError if the folder has neither file.
class ShardedReader {
 public:
  explicit ShardedReader(const std::filesystem::path& folder, std::string_view stem = "model");

  /// Ascending.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::optional<TensorInfo> find(std::string_view name) const;
  [[nodiscard]] const TensorInfo& at(std::string_view name) const;
  void read(std::string_view name, std::span<std::byte> out) const;
  void read_range(std::string_view name, std::int64_t first_byte, std::span<std::byte> out) const;
  /// From all files so far, their headers included, the index not.
  [[nodiscard]] std::int64_t bytes_read() const;

 private:
  void open_shards(const std::filesystem::path& folder);
  [[nodiscard]] const SafetensorsReader& shard_of(std::string_view name) const;

  std::filesystem::path place_;
  std::vector<SafetensorsReader> shards_;
  std::map<std::string, std::size_t, std::less<>> shard_by_name_;
};

/// Writes a new safetensors file from start to end: the specs first, then the data in pieces, in
/// the order of tensors(): widest dtype first, then by name, so that data is aligned. Destroyed
/// before finish(), it removes the part-written file.
class SafetensorsWriter {
 public:
  /// Writes the header. Throws UsageError for a repeated, reserved or non-UTF-8 name, a negative
  /// size, a size beyond 2^63 - 1 bytes or a header beyond kMaxHeaderBytes; ResourceError if the
  /// file exists or cannot be written.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> specs,
                    const TensorMetadata& metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  /// Bytes of the file that these specs make.
  [[nodiscard]] static std::int64_t file_bytes(std::vector<TensorSpec> specs,
                                               const TensorMetadata& metadata = {});

  /// In the order in which their data must be written; offsets are known.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const;
  /// Appends the next piece of tensor `name`, which must be the first one not yet complete (tensors
  /// without elements need no call). UsageError if it is not its turn or the piece is too long.
  void write(std::string_view name, std::span<const std::byte> piece);
  /// Waits until the file is on disk; UsageError if data is missing. Last call.
  FileDigest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
