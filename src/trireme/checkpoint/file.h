// A file with 64-bit offsets whose every failure names the path and the remedy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Size and checksum of a written file.
struct FileDigest {
  std::int64_t bytes = 0;
  std::string xxh64;  ///< 16 lower-case hexadecimal digits, seed 0
  bool operator==(const FileDigest&) const = default;
};

/// xxHash64 (seed 0) of `bytes` as 16 lower-case hexadecimal digits; also for config hashes.
[[nodiscard]] std::string xxh64_hex(std::string_view bytes);

/// What an error says a file is of, in brackets, for files that are of no checkpoint.
inline constexpr std::string_view kPlainFile = "file";

/// An open regular file; closes itself. Reading is thread-safe. Every error is a ResourceError that
/// begins with `[where]`.
class File {
 public:
  /// Opens for reading; refuses what is no regular file.
  [[nodiscard]] static File open(const std::filesystem::path& path,
                                 std::string_view where = "checkpoint");
  /// Makes a new file for writing; refuses a path that exists.
  [[nodiscard]] static File create(const std::filesystem::path& path,
                                   std::string_view where = "checkpoint");
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::int64_t size_bytes() const;
  /// Fills `out` from `offset`; throws if the file ends before.
  void read(std::int64_t offset, std::span<std::byte> out) const;
  /// By all calls of read() so far.
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_.load(); }
  /// Appends. A full disk is reported with the bytes needed and free.
  void write(std::span<const std::byte> bytes);
  /// Waits until the content is on disk.
  void sync();

 private:
  File(std::filesystem::path path, std::string_view where, int descriptor);

  std::filesystem::path path_;
  std::string_view where_;  ///< a literal
  int descriptor_;
  mutable std::atomic<std::int64_t> bytes_read_{0};  ///< a sum; orders nothing
};

/// Whole content; refuses more than `limit_bytes`.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, std::int64_t limit_bytes,
                                    std::string_view where = "checkpoint");
/// Writes a new file and waits until it is on disk.
FileDigest write_text(const std::filesystem::path& path, std::string_view text,
                      std::string_view where = "checkpoint");
/// Reads the file once.
[[nodiscard]] FileDigest digest_of(const std::filesystem::path& path);
/// Waits until the names in a directory are on disk.
void sync_directory(const std::filesystem::path& dir);

}  // namespace trireme
