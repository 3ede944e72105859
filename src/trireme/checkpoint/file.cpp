#include "trireme/checkpoint/file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/xxh64.h"

namespace trireme {
namespace {

/// One read or write call moves at most 2 GiB - 4 KiB on Linux.
constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;

[[noreturn]] void throw_io_error(std::string_view where, const std::filesystem::path& path,
                                 std::string_view action, int error_number,
                                 std::string_view remedy) {
  throw ResourceError(fmt::format("[{}] {}: cannot be {}: {}; {}", where, path.string(), action,
                                  std::generic_category().message(error_number), remedy));
}

bool is_full(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

[[noreturn]] void throw_write_error(std::string_view where, const std::filesystem::path& path,
                                    int descriptor, std::size_t missing_bytes, int error_number) {
  if (!is_full(error_number)) {
    throw_io_error(where, path, "written", error_number,
                   "the folder must be writable; check its disk");
  }
  struct statvfs disk {};
  const bool is_known = ::fstatvfs(descriptor, &disk) == 0;
  const auto free_bytes = narrow<std::int64_t>(disk.f_bavail * disk.f_frsize);
  throw ResourceError(fmt::format(
      "[{}] {}: cannot be written: {}: needed {} bytes more, free {}; a checkpoint must "
      "fit; free some space or choose another run.dir",
      where, path.string(), std::generic_category().message(error_number), missing_bytes,
      is_known ? format_bytes(free_bytes) : "unknown"));
}

}  // namespace

std::string xxh64_hex(std::string_view bytes) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

File::File(std::filesystem::path path, std::string_view where, int descriptor)
    : path_(std::move(path)), where_(where), descriptor_(descriptor) {}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      where_(other.where_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_read_(other.bytes_read_.load()) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::open(const std::filesystem::path& path, std::string_view where) {
  // O_NONBLOCK, so that a pipe in place of a file is refused below and does not block here.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw_io_error(where, path, "opened", errno,
                   "the file must exist and be readable; correct the path");
  }
  File file(path, where, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw_io_error(where, path, "opened", errno, "the file must be readable; check its disk");
  }
  if (!S_ISREG(status.st_mode)) {
    throw ResourceError(fmt::format(
        "[{}] {}: is {}; it must be a regular file; correct "
        "the path",
        where, path.string(), S_ISDIR(status.st_mode) ? "a folder" : "no regular file"));
  }
  return file;
}

File File::create(const std::filesystem::path& path, std::string_view where) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    throw_io_error(where, path, "made", errno,
                   errno == EEXIST
                       ? "files are never overwritten; remove it or choose another path"
                       : "the folder must exist and be writable; check its rights and its disk");
  }
  return {path, where, descriptor};
}

std::int64_t File::size_bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    throw_io_error(where_, path_, "read", errno, "the file must be readable; check its disk");
  }
  return narrow<std::int64_t>(status.st_size);
}

void File::read(std::int64_t offset, std::span<std::byte> out) const {
  const auto wanted = out.size();
  while (!out.empty()) {
    const ssize_t count =
        ::pread(descriptor_, out.data(), std::min(out.size(), kMaxCallBytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io_error(where_, path_, "read", errno, "check its disk");
    if (count == 0) {
      throw ResourceError(fmt::format(
          "[{}] {}: ends at byte {}, {} of {} bytes short; the file must be whole; fetch "
          "or save it again",
          where_, path_.string(), offset, out.size(), wanted));
    }
    bytes_read_ += count;
    offset += count;
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxCallBytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_write_error(where_, path_, descriptor_, bytes.size(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void File::sync() {
  // Some file systems find out here that the disk is full.
  if (::fsync(descriptor_) != 0) throw_write_error(where_, path_, descriptor_, 0, errno);
}

std::string read_text(const std::filesystem::path& path, std::int64_t limit_bytes,
                      std::string_view where) {
  const File file = File::open(path, where);
  const std::int64_t bytes = file.size_bytes();
  if (bytes > limit_bytes) {
    throw ResourceError(
        fmt::format("[{}] {}: {} bytes; at most {} are read; this is not "
                    "the file it should be: fetch or save it again",
                    where, path.string(), bytes, limit_bytes));
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

FileDigest write_text(const std::filesystem::path& path, std::string_view text,
                      std::string_view where) {
  File file = File::create(path, where);
  file.write(std::as_bytes(std::span(text)));
  file.sync();
  return {.bytes = std::ssize(text), .xxh64 = xxh64_hex(text)};
}

FileDigest digest_of(const std::filesystem::path& path) {
  constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
  const File file = File::open(path);
  const std::int64_t bytes = file.size_bytes();
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
  Xxh64 hash;
  for (std::int64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    const auto count = static_cast<std::size_t>(std::min(kPieceBytes, bytes - offset));
    const auto part = std::span(piece).first(count);
    file.read(offset, part);
    hash.update(part);
  }
  return {.bytes = bytes, .xxh64 = hash.hex()};
}

void sync_directory(const std::filesystem::path& dir) {
  const int descriptor = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    throw_io_error("checkpoint", dir, "opened", errno, "the folder must exist; check its disk");
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  if (result != 0) throw_io_error("checkpoint", dir, "synced", error_number, "check its disk");
}

}  // namespace trireme
