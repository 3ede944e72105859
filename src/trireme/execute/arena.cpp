#include "trireme/execute/arena.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;
constexpr std::int64_t kSmallPageBytes = 4096;

/// The first number of a file, or after `key` in it; nothing if the file or number is not there.
std::optional<std::int64_t> number_in(const char* path, const std::string& key = "") {
  std::ifstream file(path);
  std::string word;
  while (!key.empty() && file >> word && word != key) {
  }
  std::int64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

/// Bytes that can still be used: MemAvailable, and what the control group (version 2) leaves.
std::int64_t available_memory_bytes() {
  std::int64_t available = std::numeric_limits<std::int64_t>::max();
  if (const auto kib = number_in("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, *limit - *used);
  return available;
}

}  // namespace

void require_memory(std::int64_t total_bytes, int num_ranks) {
  const std::int64_t available = available_memory_bytes();
  if (total_bytes <= available) return;
  throw ResourceError(
      fmt::format("[memory] {} ranks need {} ({} bytes) but {} are available; use a smaller model "
                  "or micro-batch, "
                  "more recomputation, or fewer ranks",
                  num_ranks, format_bytes(total_bytes), total_bytes, format_bytes(available)));
}

Arena::Arena(std::int64_t bytes) : size_(bytes) {
  // One huge page more than needed, so that the used part can start on a huge-page boundary.
  mapped_ = round_up(bytes, kHugePageBytes) + kHugePageBytes;
  void* const mapping = ::mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw ResourceError(
        fmt::format("[memory] an arena of {} ({} bytes) cannot be mapped: {}; use a smaller "
                    "model, micro-batch or more recomputation",
                    format_bytes(bytes), bytes, std::generic_category().message(errno)));
  }
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  const auto skip =
      static_cast<std::int64_t>((kHugePageBytes - address % kHugePageBytes) % kHugePageBytes);
  begin_ = mapping_ + skip;
  ::madvise(begin_, static_cast<std::size_t>(mapped_ - skip),
            MADV_HUGEPAGE);  // a hint: 4 KiB pages work too
  for (std::int64_t offset = 0; offset < size_; offset += kSmallPageBytes)
    begin_[offset] = std::byte{0};
}

Arena::Arena(Arena&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(mapping_, other.mapping_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Arena::~Arena() {
  if (mapping_ != nullptr) ::munmap(mapping_, static_cast<std::size_t>(mapped_));
}

}  // namespace trireme
