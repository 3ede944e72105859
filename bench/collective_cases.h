// What the benchmarks of collectives measure, whoever carries them out.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <sys/mman.h>
#include <vector>

namespace trireme::bench {

/// Buffers of floats, all together of `num_bytes`: an all-reduce and a reduce-scatter of `full`, an
/// all-gather into it.
inline constexpr std::array<std::string_view, 3> kCollectives = {"all-reduce", "reduce-scatter",
                                                                 "all-gather"};
inline constexpr std::array<std::int64_t, 6> kSizes = {64 << 10, 256 << 10, 512 << 10,
                                                       4 << 20,  16 << 20,  64 << 20};

/// Page-aligned and touched, as in an arena.
class Floats {
 public:
  explicit Floats(std::int64_t num_bytes)
      : bytes_(static_cast<std::byte*>(
            ::operator new (static_cast<std::size_t>(num_bytes), std::align_val_t{4096}))),
        num_bytes_(static_cast<std::size_t>(num_bytes)) {
    std::memset(bytes_, 0, num_bytes_);
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { ::operator delete (bytes_, std::align_val_t{4096}); }
  [[nodiscard]] std::span<std::byte> span() const { return {bytes_, num_bytes_}; }

 private:
  static constexpr std::align_val_t kHugePage{2 << 20};
  std::byte* bytes_;
  std::size_t num_bytes_;
};

/// Calls barriers until the scheduler has spread the ranks over the cores.
inline void warm_up(const std::function<void()>& barrier) {
  constexpr int kNumBarriers = 5'000;
  for (int i = 0; i < kNumBarriers; ++i) barrier();
}

/// Seconds of one call: median of several repetitions, each of many calls after a barrier.
inline double seconds_per_call(std::int64_t num_bytes, const std::function<void()>& barrier,
                               const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRepetitions = 5;
  const auto num_calls = std::clamp<std::int64_t>((std::int64_t{32} << 20) / num_bytes, 2, 64);
  for (int i = 0; i < 2; ++i) call();
  std::vector<double> seconds;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    barrier();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < num_calls; ++i) call();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() /
                      static_cast<double>(num_calls));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepetitions / 2, seconds.end());
  return seconds[kRepetitions / 2];
}

/// One line for bench/collectives.
inline void print_case(std::string_view who, std::string_view collective, int ranks,
                       std::int64_t num_bytes, double seconds) {
  std::printf("%.*s %.*s %d %lld %.3f\n", static_cast<int>(who.size()), who.data(),
              static_cast<int>(collective.size()), collective.data(), ranks,
              static_cast<long long>(num_bytes), seconds * 1e6);
}

}  // namespace trireme::bench
