// The one memory region of a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// An anonymous mapping on transparent huge pages, touched at construction, so that no page faults
/// occur later. Zero-filled. Measured: against 4 KiB pages a step of matrix products is 4-17 %
/// faster.
class Arena {
 public:
  /// Maps and touches `bytes`; ResourceError naming the size if the system refuses.
  explicit Arena(std::int64_t bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  /// The bytes that the plan asked for; at most one huge page less than what is mapped.
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {begin_, static_cast<std::size_t>(size_)};
  }
  [[nodiscard]] std::int64_t mapped_bytes() const { return mapped_; }

 private:
  std::byte* begin_ = nullptr;
  std::byte* mapping_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t mapped_ = 0;
};

/// Throws ResourceError, naming both sizes, if the arenas of `num_ranks` ranks of this process do
/// not fit into the memory that the system and the process's control group have left.
void require_memory(std::int64_t total_bytes, int num_ranks);

}  // namespace trireme
