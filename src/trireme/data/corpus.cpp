#include "trireme/data/corpus.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/data/utf8.h"

namespace trireme {
namespace {

constexpr std::array<std::uint8_t, 3> kByteOrderMark = {0xEF, 0xBB, 0xBF};

std::string error_text(int error_number) {
  return std::generic_category().message(error_number);
}

void check_is_text_path(const std::string& path) {
  const std::filesystem::path place(path);
  std::error_code error;
  const auto status = std::filesystem::status(place, error);
  if (!std::filesystem::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory) {
      throw ResourceError(
          fmt::format("[data] text = \"{}\": {}; the file must be readable; check "
                      "the rights of its folders",
                      path, error.message()));
    }
    std::error_code ignored;
    const std::string base = std::filesystem::current_path(ignored).string();
    throw UsageError(
        fmt::format("[data] text = \"{}\": no such file; each entry names a text "
                    "file{}; correct the path",
                    path, place.is_absolute() ? "" : " relative to \"" + base + "\""));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw UsageError(fmt::format(
        "[data] text = \"{}\": {}; each entry names a regular text file; "
        "{}",
        path, std::filesystem::is_directory(status) ? "is a folder" : "is no regular file",
        std::filesystem::is_directory(status) ? "list the files inside" : "copy it to a file"));
  }
}

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& reason) {
  throw ResourceError(
      fmt::format("[data] text = \"{}\": cannot be read: {}; the file must be "
                  "readable to its end; check its rights and its disk",
                  path, reason));
}

/// Reads to the end in one buffer of the file's size.
std::vector<std::uint8_t> read_bytes(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_unreadable(path, error_text(errno));
  const auto close = [](const int* opened) { ::close(*opened); };
  const std::unique_ptr<const int, decltype(close)> closer(&descriptor, close);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_unreadable(path, error_text(errno));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(descriptor, bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_unreadable(path, error_text(errno));
    if (count == 0) throw_unreadable(path, "it became shorter while being read");
    filled += static_cast<std::size_t>(count);
  }
  return bytes;
}

void check_is_text(const std::string& path, std::span<const std::uint8_t> bytes) {
  const auto nul = std::find(bytes.begin(), bytes.end(), std::uint8_t{0});
  if (nul != bytes.end()) {
    throw UsageError(
        fmt::format("[data] text = \"{}\": NUL byte at offset {}; a text file holds "
                    "none, so this is binary data or UTF-16; give a UTF-8 text file",
                    path, nul - bytes.begin()));
  }
  if (const auto offset = first_invalid_utf8(bytes)) {
    throw UsageError(
        fmt::format("[data] text = \"{}\": byte 0x{:02x} at offset {} is not UTF-8; "
                    "text must be UTF-8; convert it (iconv -t UTF-8)",
                    path, bytes[static_cast<std::size_t>(*offset)], *offset));
  }
}

}  // namespace

Corpus::Corpus(std::vector<std::string> paths, double val_fraction) {
  if (paths.empty()) {
    throw UsageError("[data] text = []: no files; training needs at least one; list text files");
  }
  if (!(val_fraction >= 0.0 && val_fraction < 1.0)) {
    throw UsageError(
        fmt::format("[data] val_fraction = {}: the held-out part of each file must be "
                    "at least 0 and below 1; choose for example 0.01",
                    val_fraction));
  }
  files_.reserve(paths.size());
  for (std::string& path : paths) files_.push_back(load(std::move(path), val_fraction));
}

Corpus::File Corpus::load(std::string path, double val_fraction) {
  check_is_text_path(path);
  File file{.path = std::move(path), .bytes = {}, .begin = 0, .split = 0};
  file.bytes = read_bytes(file.path);
  check_is_text(file.path, file.bytes);
  const auto num_bytes = narrow<std::int64_t>(file.bytes.size());
  if (file.bytes.size() >= kByteOrderMark.size() &&
      std::equal(kByteOrderMark.begin(), kByteOrderMark.end(), file.bytes.begin())) {
    file.begin = narrow<std::int64_t>(kByteOrderMark.size());
  }
  const std::int64_t num_tokens = num_bytes - file.begin;
  if (num_tokens == 0) {
    throw UsageError(
        fmt::format("[data] text = \"{}\": holds no text ({} bytes); each file must "
                    "hold at least one window; remove it from the list",
                    file.path, num_bytes));
  }
  file.split = num_bytes - static_cast<std::int64_t>(
                               std::floor(val_fraction * static_cast<double>(num_tokens)));
  return file;
}

const std::string& Corpus::path(int file) const {
  return files_.at(narrow<std::size_t>(file)).path;
}

std::int64_t Corpus::num_tokens(int file, Split split) const {
  const File& from = files_.at(narrow<std::size_t>(file));
  return split == Split::kTrain ? from.split - from.begin
                                : narrow<std::int64_t>(from.bytes.size()) - from.split;
}

std::int64_t Corpus::num_tokens(Split split) const {
  std::int64_t total = 0;
  for (int file = 0; file < num_files(); ++file) total += num_tokens(file, split);
  return total;
}

void Corpus::read(int file, Split split, std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = narrow<std::int64_t>(out.size());
  TRI_CHECK(first >= 0 && first <= num_tokens(file, split) - count);
  const File& from = files_.at(narrow<std::size_t>(file));
  const std::int64_t start = (split == Split::kTrain ? from.begin : from.split) + first;
  std::copy_n(from.bytes.begin() + start, count, out.begin());
}

}  // namespace trireme
